"""What Penlight is measured by: real models, and its peers side by side."""
