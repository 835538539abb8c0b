package checks

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/driver"
)

var (
	fileName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	envVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (c machineCheck) defaults(path jsonc.Path) {
	d := &c.cfg.Defaults
	c.vars(path.Key("vars"), d.Vars)
	c.args(path.Key("args"), d.Args)
	c.userdata(path.Key("userdata"), d.Userdata)
}

func (c machineCheck) templates(path jsonc.Path) {
	sorted(c.cfg.Templates, func(key string, t document.Template) {
		p := path.Key(key)
		c.name(p, key)
		if c.required(p.Key("kind"), t.Kind, "three small letters, the prefix of the machines' ids") {
			if err := identity.ValidateKind(t.Kind); err != nil {
				c.add(p.Key("kind"), err.Error(), `such as "web"`)
			}
		}
		if c.required(p.Key("arch"), t.Arch, "amd64 or arm64") {
			c.oneOf(p.Key("arch"), t.Arch, "amd64", "arm64")
		}
		c.instanceTypes(p.Key("instance_type"), t.InstanceType, t.Arch)
		c.instanceTypes(p.Key("allowed_instance_types"), t.AllowedInstanceTypes, t.Arch)
		c.unique(p.Key("allowed_instance_types"), t.AllowedInstanceTypes)
		c.size(p.Key("size"), t.Size)
		if t.SubnetPool != "" {
			reference(c.report, p.Key("subnet_pool"), "subnet pool", t.SubnetPool, c.cfg.Server.SubnetPools)
		}
		c.vars(p.Key("vars"), t.Vars)
		c.args(p.Key("args"), t.Args)
		c.userdata(p.Key("userdata"), t.Userdata)
		c.block(p.Key("node"), t.Node.Problems())
		c.block(p.Key("machine"), t.Machine.Problems())
		c.policyIsWritten(p, t)
		c.holdCounts(p.Key("machine"), t.Machine)
		c.oneOf(p.Key("reuse"), t.Reuse, document.ReuseTenant, document.ReuseAny)
		if len(t.Files) > document.MaxFiles {
			c.addKey(p.Key("files"), strconv.Itoa(len(t.Files))+" files", "at most "+strconv.Itoa(document.MaxFiles)+": an agent takes no more at once; put several into one")
		}
		sorted(t.Files, func(name string, f document.File) { c.file(p.Key("files").Key(name), name, f) })
	})
}

func (c machineCheck) size(path jsonc.Path, size *int) {
	if size != nil {
		c.number(path, *size, 0, document.MaxGroupSize)
	}
}

// instanceTypes checks a list of types, each of which must fit the architecture
// if the cloud knows.
func (c machineCheck) instanceTypes(path jsonc.Path, types []string, arch string) {
	for i, typ := range types {
		p := path
		if c.doc.Has(path.Index(i)) {
			p = path.Index(i)
		}
		if typ == "" || !document.CleanText(typ) {
			c.add(p, jsonc.Quoted(typ)+" is not an instance type", "write one of the provider's")
			continue
		}
		if arch != "amd64" && arch != "arm64" {
			continue
		}
		switch fits, err := c.cfg.Rules.CheckType(typ, arch); {
		case !fits:
			c.add(p, err.Error(), "choose a type of the template's architecture, "+arch)
		case err != nil:
			c.warn(p, jsonc.Quoted(typ)+" is not known, so its architecture was not checked", "make sure that it is "+arch)
		}
	}
}

func (c machineCheck) vars(path jsonc.Path, vars document.Vars) {
	sorted(vars, func(name, _ string) {
		if name == "" || !document.CleanText(name) {
			c.addKey(path.Key(name), "not a name of a variable", "use letters, digits and _")
		}
	})
}

func (c machineCheck) args(path jsonc.Path, args map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch err := c.cfg.Rules.CheckArg(name, args[name]); {
		case errors.Is(err, driver.ErrArgWarning):
			c.warn(path.Key(name), err.Error(), "see the provider's list of arguments")
		case err != nil:
			c.addKey(path.Key(name), err.Error(), "take it out, or see the provider's list of arguments")
		}
	}
	c.tree(path, args, texttemplate.Args)
}

func (c machineCheck) userdata(path jsonc.Path, u *document.Userdata) {
	if u == nil {
		return
	}
	okSource := c.oneOf(path.Key("source"), u.Source, document.SourceInline, document.SourceURL)
	okEncoding := c.oneOf(path.Key("encoding"), u.Encoding, document.EncodingPlain, document.EncodingBase64, document.EncodingGzip, document.EncodingBase64Gzip)
	content := path.Key("content")
	if !okSource || !okEncoding || !c.required(content, u.Content, "the script, or with source url its address") {
		return
	}
	if u.Source == document.SourceURL {
		if at, err := url.Parse(u.Content); err != nil || at.Scheme != "https" || at.Host == "" {
			c.add(content, jsonc.Quoted(u.Content)+" is not an address to fetch from", "it must begin with https://")
		}
		return
	}
	if u.Encoding == document.EncodingGzip {
		c.add(path.Key("encoding"), "gzip is not text", `use "base64+gzip", or source url`)
		return
	}
	text, err := u.Decode([]byte(u.Content))
	if err != nil {
		remedy := "see encoding, which is " + jsonc.Quoted(u.Encoding)
		if errors.Is(err, document.ErrUserdataTooLarge) {
			remedy = "make it shorter, or let it fetch what it runs"
		}
		c.add(content, err.Error(), remedy)
		return
	}
	c.template(content, text, texttemplate.Userdata)
	if !strings.Contains(text, "Nonce") {
		c.warn(content, "no machine can register: the nonce is not in it", "have the machine get {{ .Nonce }}, see the page about user data")
	}
}

// holdCounts warns of a longest hold that is written where the block is not enabled. Holds are for all instances, so
// somebody may rely on it.
func (c machineCheck) holdCounts(path jsonc.Path, m *document.Machine) {
	if m != nil && !m.Enabled && m.MaxHold != nil {
		c.warnKey(path.Key("max_hold"), "no effect: the block is not enabled, and a machine of it is on hold for 24h at most",
			"set enabled to true for hosts of node machines, or take it out")
	}
}

// policyIsWritten warns where user data leaves out what the hosts of node machines are told: without
// their policy they build none.
func (c machineCheck) policyIsWritten(path jsonc.Path, t document.Template) {
	u := t.Userdata
	if u == nil {
		u = c.cfg.Defaults.Userdata
	}
	if t.Machine.On() == nil || u != nil && u.Source == document.SourceURL {
		return
	}
	if u != nil {
		if text, err := u.Decode([]byte(u.Content)); err != nil || strings.Contains(text, ".Machine.Policy") {
			return
		}
	}
	c.warn(path.Key("machine").Key("enabled"), "user data does not write the host's policy, without which no node machine is built",
		`have user data write {{ .Machine.Policy }} to /etc/nstance-agent/machine-policy.yaml, unless the image has that file`)
}
