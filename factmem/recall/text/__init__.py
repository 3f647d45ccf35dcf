"""Reading text: analysis, times, signs, related words and updates. English, by rules, without a model."""
