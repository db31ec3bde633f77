"""What comes of surveys: results per question, in words, and as files that other programs read."""
