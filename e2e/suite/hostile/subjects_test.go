package hostile

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
)

// What servers answer to a certificate of the authority that names nobody, or the wrong one.
const (
	badCertificate = "Unauthenticated BAD_CERTIFICATE"
	wrongRole      = "PermissionDenied WRONG_ROLE"
	nobodyKnown    = "PermissionDenied UNKNOWN_OPERATOR"
	noInstance     = "PermissionDenied UNKNOWN_INSTANCE"
	badHandshake   = "handshake"
)

var oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}

// organizations are certificates whose tenant is not one, or somebody else's.
var organizations = func() (all []twin) {
	add := func(name, held, agents string, subject func(*pkix.Name)) {
		all = append(all, twin{name, held, agents, func(_ *testing.T, _ *world, f *forgery) { subject(&f.Subject) }})
	}
	add("no tenant", badCertificate, "", func(n *pkix.Name) { n.Organization = nil })
	add("two tenants in one name", badCertificate, "", func(n *pkix.Name) { n.Organization = append(n.Organization, "zeta") })
	add("two tenants in two names", badCertificate, "", func(n *pkix.Name) {
		n.ExtraNames = []pkix.AttributeTypeAndValue{
			{Type: oidOrganization, Value: identity.DefaultTenant}, {Type: oidOrganization, Value: "zeta"},
		}
	})
	for _, o := range []struct{ name, value string }{
		{"the tenant in capitals", "DEFAULT"}, {"a blank behind the tenant", "default "}, {"a NUL behind the tenant", "default\x00"},
		{"a tenant that is a path", "../default"}, {"a tenant that is a wildcard", "*"}, {"a tenant of 40 letters", strings.Repeat("a", 40)},
		{"a tenant with a letter that looks the same", "d\u0435fault"}, {"a tenant with a list in it", "default,zeta"},
	} {
		add(o.name, badCertificate, "", func(n *pkix.Name) { n.Organization = []string{o.value} })
	}
	add("another tenant", nobodyKnown, noInstance, func(n *pkix.Name) { n.Organization = []string{"zeta"} })
	add("a tenant that is not configured", "PermissionDenied UNKNOWN_TENANT", "", func(n *pkix.Name) { n.Organization = []string{"nobody"} })
	return all
}()

// commonNames are certificates whose name is not that of their address.
var commonNames = func() (all []twin) {
	for _, c := range []struct{ name, value string }{
		{"no common name", ""}, {"the common name of another cluster", "prod"}, {"the common name of another machine", "mut068a3cp3thz5z2mv1gejwftabc"},
		{"the common name of a server", "leader"},
	} {
		all = append(all, twin{c.name, badCertificate, "", func(_ *testing.T, _ *world, f *forgery) { f.Subject.CommonName = c.value }})
	}
	return append(all, twin{"the common name in capitals", badCertificate, "", func(_ *testing.T, _ *world, f *forgery) {
		f.Subject.CommonName = strings.ToUpper(f.Subject.CommonName)
	}})
}()

// roles are certificates without a role, or with one that there is not.
var roles = func() (all []twin) {
	add := func(name string, values ...[]byte) {
		all = append(all, twin{name, wrongRole, "", func(_ *testing.T, _ *world, f *forgery) {
			f.ExtraExtensions = nil
			for _, value := range values {
				f.ExtraExtensions = append(f.ExtraExtensions, pkix.Extension{Id: identity.RoleOID, Value: value})
			}
		}})
	}
	add("no role")
	add("an empty role", []byte{})
	for _, name := range []string{"server", "admin", "Agent", "OPERATOR", "agent,operator", "operator\x00"} {
		add("the role "+strconv.Quote(name), asn1UTF8(name))
	}
	add("a role that is no ASN.1", []byte("operator"))
	add("a role in another kind of text", append([]byte{0x13, 8}, "operator"...))
	add("a role with bytes behind it", append(asn1UTF8("operator"), 0))
	add("a role with its length in a long form", append([]byte{0x0c, 0x81, 8}, "operator"...))
	all = append(all,
		twin{"two roles", badHandshake, "", func(_ *testing.T, _ *world, f *forgery) {
			f.ExtraExtensions = []pkix.Extension{identity.RoleExtension(identity.RoleAgent), identity.RoleExtension(identity.RoleOperator)}
		}},
		twin{"the other role", badCertificate, "", func(_ *testing.T, _ *world, f *forgery) {
			other := identity.RoleAgent
			if string(f.ExtraExtensions[0].Value) == string(identity.RoleExtension(identity.RoleAgent).Value) {
				other = identity.RoleOperator
			}
			f.ExtraExtensions = []pkix.Extension{identity.RoleExtension(other)}
		}},
		twin{"a viewer's role", "PermissionDenied UNKNOWN_OPERATOR", badCertificate, func(_ *testing.T, _ *world, f *forgery) {
			f.ExtraExtensions = []pkix.Extension{identity.RoleExtension(identity.RoleViewer)}
		}},
		twin{"a critical extension that nobody knows", badHandshake, "", func(_ *testing.T, _ *world, f *forgery) {
			f.ExtraExtensions = append(f.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 999999, 7}, Critical: true, Value: []byte{5, 0}})
		}},
	)
	return all
}()

func asn1UTF8(s string) []byte { return append([]byte{0x0c, byte(len(s))}, s...) }

// uris are certificates whose address is written in another way, or somebody else's.
var uris = func() (all []twin) {
	add := func(name, held, agents string, write func(u string) []string) {
		all = append(all, twin{name, held, agents, func(t *testing.T, _ *world, f *forgery) {
			out := write(f.URIs[0].String())
			if len(out) == 1 && out[0] == f.URIs[0].String() {
				t.Fatal("the address does not change")
			}
			f.URIs = nil
			for _, text := range out {
				u, err := url.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				f.URIs = append(f.URIs, u)
			}
		}})
	}
	one := func(old, now string) func(string) []string {
		return func(u string) []string { return []string{strings.Replace(u, old, now, 1)} }
	}
	add("no address", badCertificate, "", func(string) []string { return nil })
	add("two addresses", badCertificate, "", func(u string) []string { return []string{u, u} })
	add("another scheme", badCertificate, "", one("nstance://", "https://"))
	add("another host", badCertificate, "", one("//cluster/", "//other/"))
	add("a host with a user", badCertificate, "", one("//cluster/", "//root@cluster/"))
	add("a host with a port", badCertificate, "", one("//cluster/", "//cluster:1/"))
	add("a slash more", badCertificate, "", func(u string) []string { return []string{u + "/"} })
	add("two slashes", badCertificate, "", one("/dev/", "//dev/"))
	add("a step up", badCertificate, "", one("/dev/", "/prod/../dev/"))
	add("a query", badCertificate, "", func(u string) []string { return []string{u + "?tenant=zeta"} })
	add("a fragment", badCertificate, "", func(u string) []string { return []string{u + "#x"} })
	add("an escape", badCertificate, "", one("/dev/", "/%64ev/"))
	add("another cluster", badCertificate, "", one("/dev/", "/prod/"))
	add("the address of nobody", nobodyKnown, badCertificate, func(u string) []string {
		return []string{u[:len(u)-26] + "068a3cp3thz5z2mv1gejwftabc"}
	})
	return all
}()
