"""What `sottovoce survey` does: one module per act, each as a module of `sottovoce.commands` is."""
