"""For coding agents: the MCP server's tools, and the files that register it with an agent.

A tool runs a command of gpudoctor in a child process and cuts its JSON to a size; it judges nothing itself.
"""
