"""Pure values and decisions: fire times, specs, plans, states. No I/O, no clock, no asyncio."""
