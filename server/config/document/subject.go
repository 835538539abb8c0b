package document

import "crypto/x509/pkix"

// Subject returns the subject that c describes, its templates as they stand: that
// of the authority, whose certificate has none.
func (c Certificate) Subject() pkix.Name {
	return pkix.Name{
		CommonName: c.CN, Organization: c.Organization, Country: c.Country, Province: c.Province,
		Locality: c.Locality, StreetAddress: c.Street, PostalCode: c.PostalCode,
	}
}
