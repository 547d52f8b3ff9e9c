"""What results mean, worked out of them: in numbers and in sentences, for every report alike."""
