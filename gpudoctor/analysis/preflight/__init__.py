"""What an active examination says: which groups to test next, whom the tests accuse, who differs from peers.

- `search`: the next round of tests between nodes, and the accusations that follow from the tests.
- `peers`: units and nodes that differ from their peers in one quantity.
- `references`: what a card or a link reaches elsewhere, each figure with its source.
"""
