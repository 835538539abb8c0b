package render

import (
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/texttemplate"
)

// Names are what a certificate says about its owner.
type Names struct {
	Subject pkix.Name
	DNS     []string
	IPs     []netip.Addr
	URIs    []*url.URL
	TTL     time.Duration
}

// Certificate renders the names of a certificate. Those that come out empty,
// such as the IPv6 address of a machine that has none, are left out; an IP
// address or URI that is not one is an error. The key is for errors.
func Certificate(key string, c document.Certificate, data Data) (Names, error) {
	r := namesRenderer{place: fmt.Sprintf("certificates[%q]", key), data: data}
	n := Names{
		Subject: pkix.Name{
			CommonName: r.one("cn", c.CN), Organization: r.list("organization", c.Organization),
			Country: c.Country, Province: c.Province, Locality: c.Locality, StreetAddress: c.Street, PostalCode: c.PostalCode,
		},
		DNS: r.list("dns", c.DNS),
		TTL: c.TTL.Std(),
	}
	for _, ip := range r.list("ip", c.IP) {
		addr, err := netip.ParseAddr(ip)
		r.check("ip", err, "the output is not an IP address")
		n.IPs = append(n.IPs, addr)
	}
	for _, uri := range r.list("uri", c.URI) {
		u, err := url.Parse(uri)
		r.check("uri", err, "the output is not a URI")
		n.URIs = append(n.URIs, u)
	}
	if r.err != nil {
		return Names{}, r.err
	}
	return n, nil
}

// namesRenderer keeps the first error.
type namesRenderer struct {
	place string
	data  Data
	err   error
}

func (r *namesRenderer) one(field, text string) string {
	if r.err != nil {
		return ""
	}
	out, err := execute(r.place+"."+field, text, r.data, texttemplate.Certificate, 1024)
	r.err = err
	return strings.TrimSpace(out)
}

func (r *namesRenderer) list(field string, texts []string) []string {
	var out []string
	for _, text := range texts {
		if name := r.one(field, text); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func (r *namesRenderer) check(field string, err error, message string) {
	if err != nil && r.err == nil {
		r.err = &Error{Place: r.place + "." + field, Err: errors.New(message)}
	}
}
