"""The attributes of subnet management: one frozen value per attribute, declared field by field. All big-endian.

Source: stl_sm_types.h and stl_mad_types.h of the public Omni-Path host software (opa-ff).
"""
