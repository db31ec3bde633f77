"""Paper for field teams: instruction sheets, answer cards, slips and tally sheets.

`procedure` is what is asked and how, `sheet` puts it into words (`languages/`) as one document of
plain values, `html` and `pdf` set that document. What chance does comes from `estimator.designs`.
"""
