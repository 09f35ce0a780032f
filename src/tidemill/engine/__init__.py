"""The beat: fold events, climb the four layers once, check the plan, carry it out."""
