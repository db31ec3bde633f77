"""After a loss: backups that were restored, devices that were erased."""
