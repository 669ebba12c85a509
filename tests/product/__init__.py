"""What tests use of the product that is no public interface, one module for each of its packages.

A part that moves is looked for here, and in no test.
"""
