package checks_test

import (
	"regexp"
	"strings"
	"testing"

	"nstance.dev/server/config"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
)

// shop is a configuration that uses a bit of everything. Cases replace a part of it.
const shop = `{
  "server": {
    "cluster_id": "c", "shard": "s", "provider": { "kind": "aws", "zone": "z", "limits": { "calls": { "rate": 2, "burst": 5 } } },
    "secrets": { "encryption_key": { "provider": "env" }, "prefix": "secret/" },
    "leader_network": { "ip": "10.0.0.9", "interface_id": "eni-1" },
    "subnet_pools": { "p": ["n"], "q": ["m"] }, "dynamic_subnet_pools": ["p", "q"],
    "error_exit_jitter": { "min_delay": "1s", "max_delay": "2s" }, "client_cert_ttl": { "agent": 720, "operator": 8760 }
  },
  "load_balancers": { "www": { "provider": "aws", "target_groups": [ { "arn": "arn:1" } ] }, "neg": { "provider": "google", "instance_group_name": "g" } },
  "images": { "img": { "provider": "aws", "fallback": "ami-1" } },
  "certificates": { "ca": {}, "cert": { "kind": "server", "dns": ["example.com"], "uri": ["spiffe://x"] } },
  "templates": {
    "t": {
      "kind": "knc", "arch": "arm64", "instance_type": "t4g.s", "allowed_instance_types": ["t4g.s", "t4g.m"], "subnet_pool": "p", "vars": { "v": "x" },
      "userdata": { "content": "{{ .Nonce }}" },
      "files": {
        "secret": { "kind": "secret", "source": "api-token" },
        "object": { "kind": "storage", "source": "files/motd" },
        "cert": { "kind": "certificate", "template": "cert", "key": { "name": "k.pub" } }
      }
    }
  },
  "groups": { "default": { "g": { "template": "t", "load_balancers": ["www"], "rails": { "max_unavailable": "5%" } } } }
}`

// placed is where a message begins that says the place; the corpus pins which.
var placed = regexp.MustCompile(`^f:\d+:\d+: `)

func loadShop(t *testing.T, from, to string) (*effective.Config, error) {
	t.Helper()
	if !strings.Contains(shop, from) {
		t.Fatalf("the configuration has no %s", from)
	}
	return config.Load("f", []byte(strings.Replace(shop, from, to, 1)), config.LoadOptions{})
}

// TestS26_RefusedBeforeItFailsElsewhere: what a store, the authority or the agent would
// refuse later, and what would be in force and make no sense, is a problem of the
// document, with its place and a remedy.
func TestS26_RefusedBeforeItFailsElsewhere(t *testing.T) {
	if cfg, err := loadShop(t, "x", "x"); err != nil || len(cfg.Warnings) > 0 {
		t.Fatalf("as it stands: %v, %v", cfg, err)
	}
	for _, tt := range []struct{ from, to, want string }{
		{`"prefix": "secret/"`, `"prefix": "../x"`, `server.secrets.prefix: "../x" can't begin the key of an object: a part of it begins with a dot; a name and a slash, such as "secret/"`},
		{`"prefix": "secret/"`, `"prefix": "secret"`, `server.secrets.prefix: "secret" does not end with a slash; write "secret/", and copy the secrets`},
		{`"prefix": "secret/"`, `"prefix": "a//"`, `server.secrets.prefix: "a//" can't begin the key of an object`},
		{`"api-token"`, `"a/b"`, `templates.t.files.secret.source: "a/b" is not a name of a secret; 1 to 128 letters, digits and . _ -`},
		{`"api-token"`, `".hidden"`, `".hidden" is not a name of a secret`},
		{`"api-token"`, `"-dash"`, `"-dash" is not a name of a secret`},
		{`"api-token"`, `"` + strings.Repeat("a", 200) + `"`, `is not a name of a secret`},
		{`"files/motd"`, `"files/"`, `templates.t.files.object.source: "files/" is not a key of an object: it begins or ends with a slash, or has two in a row`},
		{`"files/motd"`, `"files//x"`, `is not a key of an object`},
		{`"files/motd"`, `"files/.x"`, `is not a key of an object: a part of it begins with a dot`},
		{`"files/motd"`, `"files/a\\b"`, `is not a key of an object: it has a control character or a backslash`},
		{`"example.com"`, `"us-west-2a.example-cluster.nstance"`, `certificates.cert.dns[0]: "us-west-2a.example-cluster.nstance" belongs to Nstance itself`},
		{`"example.com"`, `"Nstance-Server"`, `belongs to Nstance itself`},
		{`"example.com"`, `"*.nstance"`, `belongs to Nstance itself`},
		{`"example.com"`, `"bad host"`, `"bad host" is not a DNS name`},
		{`"example.com"`, `"{{ .Vars.v }}.nstance"`, `for group default/g: "x.nstance" belongs to Nstance itself`},
		{`"spiffe://x"`, `"NSTANCE://x"`, `certificates.cert.uri[0]: "NSTANCE://x" belongs to Nstance itself`},
		{`"ami-1"`, `"{{ .Image.a }}"`, `images.img.fallback: "{{ .Image.a }}" is not the id of an image`},
		{`"10.0.0.9"`, `"0.0.0.0"`, `server.leader_network.ip: "0.0.0.0" is no address that others could reach`},
		{`"10.0.0.9"`, `"127.0.0.1"`, `is no address that others could reach`},
		{`"10.0.0.9"`, `"169.254.1.1"`, `is no address that others could reach`},
		{`["www"]`, `["www", "www"]`, `groups.default.g.load_balancers[1]: "www" stands here twice; take one of them out`},
		{`["p", "q"]`, `["p", "p"]`, `server.dynamic_subnet_pools[1]: "p" stands here twice`},
		{`["t4g.s", "t4g.m"]`, `["t4g.s", "t4g.s"]`, `templates.t.allowed_instance_types[1]: "t4g.s" stands here twice`},
		{`"rate": 2`, `"rate": 1e-300`, `server.provider.limits.calls.rate: too small: one call would take more than a quarter of an hour; so many a second, from 0.001 to 1000000`},
		{`"max_delay": "2s"`, `"max_delay": "8760h"`, `server.error_exit_jitter.max_delay: 365d is too long; at most 1h0m0s`},
		{`"agent": 720`, `"agent": 998640`, `server.client_cert_ttl.agent: 998640 is out of range; from 1 to 87600`},
	} {
		if _, err := loadShop(t, tt.from, tt.to); err == nil || !placed.MatchString(err.Error()) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %s", tt.to, err, tt.want)
		}
	}
	text := strings.NewReplacer(`"v": "x"`, `"v": "../secret/ca.key"`, `files/motd`, `files/{{ .Vars.v }}`).Replace(shop)
	want := `templates.t.files.object.source: for group default/g: it comes to "files/../secret/ca.key", which is not a key of an object`
	if _, err := config.Load("f", []byte(text), config.LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a key that a variable leads out of files/: %v\nwant %s", err, want)
	}
}

// TestF50_MessagesSayWhatIsWrong: one problem each, about the mistake that was made.
func TestF50_MessagesSayWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`"rate": 2`, `"rate": 1e30`, `server.provider.limits.calls.rate: too large; so many a second, from 0.001 to 1000000; leave the bucket out for the driver's default`},
		{`"rate": 2, `, ``, `server.provider.limits.calls.rate: required; so many a second, from 0.001 to 1000000; leave the bucket out for the driver's default`},
		{`, "burst": 5`, ``, `server.provider.limits.calls.burst: required; so many may be saved up, at least 1`},
		{`"error_exit_jitter"`, `"admin_tenants": ["nobody"], "error_exit_jitter"`, `server.admin_tenants[0]: there is no tenant "nobody"; there are default`},
		{`"zone": "z"`, `"zone": {}`, `server.provider.zone: expected a string, found an object; write one text in quotes in its place`},
		{`{{ .Nonce }}`, strings.Repeat("x", 2<<20), `templates.t.userdata.content: larger than 1048576 bytes; make it shorter, or let it fetch what it runs`},
		{`"min_delay": "1s"`, `"min_delay": "99999999999h"`, `server.error_exit_jitter.min_delay: "99999999999h" is too long: more than 106751 days; write it as "90s", "6h" or "7d"`},
		{`"min_delay": "1s"`, `"min_delay": "10000000d"`, `server.error_exit_jitter.min_delay: "10000000d" is too long: more than 106751 days; write it as "90s", "6h" or "7d"`},
		{`"min_delay": "1s"`, `"min_delay": "1.5d"`, `server.error_exit_jitter.min_delay: "1.5d" is not a whole number of days; write it as "90s", "6h" or "7d"`},
		{`"template": "cert"`, `"template": "other"`, `templates.t.files.cert.template: there is no certificate "other"; there are cert`},
		{`["www"]`, `["other"]`, `groups.default.g.load_balancers[0]: there is no load balancer "other"; there are www`},
		{`"provider": "aws", "target_groups"`, `"provider": 7, "target_groups"`, `load_balancers.www.provider: expected a string, found a number; write it in quotes`},
		{`"min_delay": "1s"`, `"min_delay": "12x"`, `server.error_exit_jitter.min_delay: "12x" is not a duration; write it as "90s", "6h" or "7d"`},
		{`"min_delay": "1s", "max_delay": "2s"`, `"min_delay": "50s"`, `server.error_exit_jitter.min_delay: min_delay 50s is above max_delay 40s, its default; set max_delay too, or lower this`},
		{`"agent": 720`, `"agent": 3.0`, `server.client_cert_ttl.agent: 3.0 has a fraction or an exponent; write 3`},
		{`"agent": 720`, `"agent": 1e2`, `server.client_cert_ttl.agent: 1e2 has a fraction or an exponent; write 100`},
		{`"agent": 720`, `"agent": 3.5`, `server.client_cert_ttl.agent: 3.5 is not a whole number; write one without a fraction`},
		{`{ "p": ["n"], "q": ["m"] }`, `[]`, `server.subnet_pools: expected an object, found a list; write it in braces: { … }`},
		{`"certificates": { "ca": {}, "cert": { "kind": "server", "dns": ["example.com"], "uri": ["spiffe://x"] } }`, `"certificates": 1`, `certificates: expected an object, found a number; write it in braces: { … }`},
	} {
		if _, err := loadShop(t, tt.from, tt.to); err == nil || placed.ReplaceAllString(err.Error(), "") != tt.want {
			t.Errorf("%.60s: %v\nwant %s", tt.to, err, tt.want)
		}
	}
	_, others, _ := strings.Cut(shop, `"load_balancers": {`)
	for name, tt := range map[string]struct{ text, want string }{
		"an empty document":       {" \n", "f:1:1: the document is empty; write an object: { … }"},
		"lone carriage returns":   {"{ // a comment\r\"server\": {}\r}", "f:1:15: lines end with a carriage return alone; save the document with line feeds at the ends of lines"},
		"null":                    {"null", "f:1:1: null is not a value; write an object: { … }"},
		"a section of wrong type": {strings.Replace(shop, `"load_balancers": {`, `"tenants": 1, "load_balancers": {`, 1), "f:9:14: tenants: expected an object, found a number; write it in braces: { … }"},
		"no server":               {`{"server": [], "load_balancers": {` + others, "f:1:12: server: expected an object, found a list; write it in braces: { … }"},
	} {
		if _, err := config.Load("f", []byte(tt.text), config.LoadOptions{}); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v\nwant %s", name, err, tt.want)
		}
	}
}

// TestF50_DoubtsAreSaid: what is likely a mistake loads, with a warning at its place.
func TestF50_DoubtsAreSaid(t *testing.T) {
	for _, tt := range []struct{ from, to, want string }{
		{`{{ .Nonce }}`, `echo`, "templates.t.userdata.content: no machine can register"},
	} {
		cfg, err := loadShop(t, tt.from, tt.to)
		if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].String(), tt.want) || cfg.Warnings[0].Line == 0 {
			t.Errorf("%s: %v, %v\nwant %s", tt.to, err, cfg, tt.want)
		}
	}
}

// TestS26_AnEmptyStoreOfSecretsIsTheDefault: a server would end at its start with a store
// that has no name.
func TestS26_AnEmptyStoreOfSecretsIsTheDefault(t *testing.T) {
	cfg, err := loadShop(t, `"prefix": "secret/"`, `"provider": ""`)
	if err != nil || cfg.Server.Secrets.Provider != document.SecretsObjectStorage || cfg.Server.Secrets.Prefix != "secret/" {
		t.Errorf("%v, %+v", err, cfg)
	}
}
