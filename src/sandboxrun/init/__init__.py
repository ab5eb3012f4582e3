"""The protocol of the init, PID 1 of every container (`images/init/`).

Everything here is sans-IO: bytes go in, values come out. What the init sends is untrusted, since
hostile code runs beside it; it is bounded and parsed strictly, and any deviation is a
`sandboxrun.errors.ProtocolError`.
"""
