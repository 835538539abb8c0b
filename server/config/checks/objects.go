package checks

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/schema"
	"nstance.dev/server/config/texttemplate"
)

var (
	imageKey       = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*|[a-z0-9]+(-[a-z0-9]+)*)$`)
	certificateKey = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
)

func (c machineCheck) loadBalancers(path jsonc.Path) {
	kinds := schema.Known().Kinds(func(p schema.Provider) bool { return p.LoadBalancer != nil })
	slices.Sort(kinds)
	sorted(c.cfg.LoadBalancers, func(key string, lb document.LoadBalancer) {
		p := path.Key(key)
		c.name(p, key)
		if !c.required(p.Key("provider"), lb.Provider, either(kinds)) || !c.oneOf(p.Key("provider"), lb.Provider, kinds...) {
			return
		}
		for _, other := range schema.Known().All {
			if other.Kind != lb.Provider {
				c.foreign(p, "provider "+lb.Provider, schema.Names(other.LoadBalancer)...)
			}
		}
		if r := c.opts.RulesOf(lb.Provider); r != nil && r.CheckLoadBalancer != nil {
			c.found(p, r.CheckLoadBalancer(lb.Args))
		}
	})
}

func (c machineCheck) images(path jsonc.Path) {
	sorted(c.cfg.Images, func(key string, image document.Image) {
		p := path.Key(key)
		if !imageKey.MatchString(key) {
			c.addKey(p, jsonc.Quoted(key)+" can't be named in a template", "letters, digits and _, or small letters, digits and single -")
		}
		kind := c.cfg.Server.Provider.Kind
		if c.required(p.Key("provider"), image.Provider, "the shard's provider") && kind != "" && image.Provider != kind {
			c.add(p.Key("provider"), jsonc.Quoted(image.Provider)+" is not the shard's provider", "it is "+jsonc.Quoted(kind))
		}
		if len(image.Filters) == 0 && image.Fallback == "" {
			c.add(p, "nothing says which image it is", "write filters, or a fallback")
		}
		for i, f := range image.Filters {
			fp := p.Key("filters").Index(i)
			c.required(fp.Key("name"), f.Name, "the property to filter by")
			if len(f.Values) == 0 {
				c.add(fp.Key("values"), "required", "at least one value")
			}
		}
		if strings.Contains(image.Fallback, "{{") {
			c.add(p.Key("fallback"), jsonc.Quoted(image.Fallback)+" is not the id of an image", "write an id: templates are not rendered here")
		}
		c.oneOf(p.Key("sort"), image.Sort, "creation-date", "name")
		c.oneOf(p.Key("order"), image.Order, "asc", "desc")
	})
}

func (c machineCheck) certificates(path jsonc.Path) {
	sorted(c.cfg.Certificates, func(key string, cert document.Certificate) {
		p := path.Key(key)
		if !certificateKey.MatchString(key) {
			c.addKey(p, jsonc.Quoted(key)+" is not a key of a certificate", `small letters, digits, "." and "-", at most 63, such as "kubelet.client"`)
		}
		if key == document.CertificateCA {
			c.foreign(p, "the CA's own certificate", "dns", "ip", "uri")
		} else {
			c.required(p.Key("kind"), cert.Kind, "client, server or peer")
		}
		c.oneOf(p.Key("kind"), cert.Kind, document.CertClient, document.CertServer, document.CertPeer)
		longest := longestLife
		if key == document.CertificateCA {
			longest = longestCA
		}
		c.hours(p.Key("ttl"), cert.TTL, longest)
		c.certificateNames(p, cert)
	})
}

func (c machineCheck) certificateNames(path jsonc.Path, cert document.Certificate) {
	c.template(path.Key("cn"), cert.CN, texttemplate.Certificate)
	for _, list := range []struct {
		name   string
		values []string
		valid  func(string) bool
	}{
		{"organization", cert.Organization, nil},
		{"dns", cert.DNS, nil},
		{"ip", cert.IP, func(s string) bool { _, err := netip.ParseAddr(s); return err == nil }},
		{"uri", cert.URI, func(s string) bool { _, err := url.Parse(s); return err == nil }},
	} {
		for i, value := range list.values {
			p := path.Key(list.name).Index(i)
			c.template(p, value, texttemplate.Certificate)
			if err := document.CheckCertificateName(list.name, value); err != nil && value != "" && !strings.Contains(value, "{{") {
				c.add(p, err.Error(), "write a name of the machine or of its service")
			}
			if list.valid != nil && value != "" && !strings.Contains(value, "{{") && !list.valid(value) {
				c.add(p, jsonc.Quoted(value)+" is not a valid "+list.name, "correct it, or make it a template")
			}
		}
	}
}
