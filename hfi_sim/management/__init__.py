"""Management of a fabric: MAD stack, agents of subnet and performance management, clients, user_mad."""
