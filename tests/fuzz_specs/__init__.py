"""Random specs by a grammar: what a schedule may say, sensible or not, and how long that takes."""
