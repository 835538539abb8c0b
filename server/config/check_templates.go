package config

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/protos/identity"
	"nstance.dev/server/bucket"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/driver"
)

var (
	fileName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	envVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ClusterSecrets are the names of the cluster's own keys: no file may carry one away.
var ClusterSecrets = []string{"ca.key", "registration-nonce.key"}

// MaxFiles is how many files a template may have: as many as an agent puts in place
// together.
const MaxFiles = 512

// FileSources says which objects of the bucket files may come from.
func (c *Config) FileSources() bucket.FileSources {
	sources := bucket.FileSources{Anywhere: c.Server.AllowAnyStorageSource}
	if c.Server.Secrets.Provider == SecretsObjectStorage {
		sources.Secrets = c.Server.Secrets.Prefix
	}
	return sources
}

func (c *checker) defaults(path jsonc.Path) {
	d := &c.cfg.Defaults
	c.vars(path.Key("vars"), d.Vars)
	c.args(path.Key("args"), d.Args)
	c.userdata(path.Key("userdata"), d.Userdata)
}

func (c *checker) templates(path jsonc.Path) {
	sorted(c.cfg.Templates, func(key string, t Template) {
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
			reference(c, p.Key("subnet_pool"), "subnet pool", t.SubnetPool, c.cfg.Server.SubnetPools)
		}
		c.vars(p.Key("vars"), t.Vars)
		c.args(p.Key("args"), t.Args)
		c.userdata(p.Key("userdata"), t.Userdata)
		if len(t.Files) > MaxFiles {
			c.addKey(p.Key("files"), decimal(len(t.Files))+" files", "at most "+decimal(MaxFiles)+": an agent takes no more at once; put several into one")
		}
		sorted(t.Files, func(name string, f File) { c.file(p.Key("files").Key(name), name, f) })
	})
}

func (c *checker) size(path jsonc.Path, size *int) {
	if size != nil {
		c.number(path, *size, 0, MaxGroupSize)
	}
}

// instanceTypes checks a list of types, each of which must fit the architecture
// if the cloud knows.
func (c *checker) instanceTypes(path jsonc.Path, types []string, arch string) {
	for i, typ := range types {
		p := path
		if c.doc.Has(path.Index(i)) {
			p = path.Index(i)
		}
		if typ == "" || !cleanText(typ) {
			c.add(p, quoted(typ)+" is not an instance type", "write one of the provider's")
			continue
		}
		if arch != "amd64" && arch != "arm64" {
			continue
		}
		switch fits, err := c.cfg.rules.checkType(typ, arch); {
		case !fits:
			c.add(p, err.Error(), "choose a type of the template's architecture, "+arch)
		case err != nil:
			c.warn(p, quoted(typ)+" is not known, so its architecture was not checked", "make sure that it is "+arch)
		}
	}
}

func (c *checker) vars(path jsonc.Path, vars Vars) {
	sorted(vars, func(name, _ string) {
		if name == "" || !cleanText(name) {
			c.addKey(path.Key(name), "not a name of a variable", "use letters, digits and _")
		}
	})
}

func (c *checker) args(path jsonc.Path, args map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch err := c.cfg.rules.checkArg(name, args[name]); {
		case errors.Is(err, driver.ErrDoubtful):
			c.warn(path.Key(name), err.Error(), "see the provider's list of arguments")
		case err != nil:
			c.addKey(path.Key(name), err.Error(), "take it out, or see the provider's list of arguments")
		}
	}
	c.tree(path, args, texttemplate.Args)
}

// tree tries every string of a value as a template.
func (c *checker) tree(path jsonc.Path, v any, scope texttemplate.Scope) {
	switch v := v.(type) {
	case map[string]any:
		sorted(v, func(key string, value any) { c.tree(path.Key(key), value, scope) })
	case []any:
		for i, value := range v {
			c.tree(path.Index(i), value, scope)
		}
	case string:
		c.template(path, v, scope)
	}
}

func (c *checker) userdata(path jsonc.Path, u *Userdata) {
	if u == nil {
		return
	}
	okSource := c.oneOf(path.Key("source"), u.Source, SourceInline, SourceURL)
	okEncoding := c.oneOf(path.Key("encoding"), u.Encoding, EncodingPlain, EncodingBase64, EncodingGzip, EncodingBase64Gzip)
	content := path.Key("content")
	if !okSource || !okEncoding || !c.required(content, u.Content, "the script, or with source url its address") {
		return
	}
	if u.Source == SourceURL {
		if at, err := url.Parse(u.Content); err != nil || at.Scheme != "https" || at.Host == "" {
			c.add(content, quoted(u.Content)+" is not an address to fetch from", "it must begin with https://")
		}
		return
	}
	if u.Encoding == EncodingGzip {
		c.add(path.Key("encoding"), "gzip is not text", `use "base64+gzip", or source url`)
		return
	}
	text, err := u.Decode([]byte(u.Content))
	if err != nil {
		remedy := "see encoding, which is " + quoted(u.Encoding)
		if errors.Is(err, errTooLarge) {
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

func (c *checker) file(path jsonc.Path, name string, f File) {
	if !fileName.MatchString(name) {
		c.addKey(path, quoted(name)+" is not a safe file name", "a base name of letters, digits, . _ and -, at most 128, beginning with a letter or digit")
	}
	const without = "a file of kind "
	switch f.Kind {
	case "":
		c.required(path.Key("kind"), "", "certificate, secret, storage, env, json or string")
	case FileCertificate:
		c.foreign(path, without+f.Kind, "source")
		c.certificateFile(path, f)
	case FileSecret:
		c.foreign(path, without+f.Kind, "template", "key")
		c.secretFile(path.Key("source"), f.Source)
	case FileStorage:
		c.foreign(path, without+f.Kind, "template", "key")
		c.storageFile(path.Key("source"), f.Source)
	case FileEnv, FileJSON, FileString:
		c.foreign(path, without+f.Kind, "source", "key")
		c.textFile(path.Key("template"), f)
	default:
		c.oneOf(path.Key("kind"), f.Kind, FileCertificate, FileSecret, FileStorage, FileEnv, FileJSON, FileString)
	}
}

func (c *checker) certificateFile(path jsonc.Path, f File) {
	template := path.Key("template")
	switch key, ok := f.Template.(string); {
	case !ok:
		c.add(template, "required", "the key of a certificate")
	case key == CertificateCA:
		c.add(template, "the CA's own certificate is not issued to machines", "name another certificate")
	default:
		reference(c, template, "certificate", key, c.cfg.Certificates)
	}
	if f.Key == nil {
		c.add(path.Key("key"), "required", `say whose key is certified: {"source": "agent", "name": "kubelet.client.pub"}`)
		return
	}
	key := path.Key("key")
	c.oneOf(key.Key("source"), f.Key.Source, "agent") // or from, which it was taken from
	if f.Key.From != "" && f.Key.From != f.Key.Source {
		c.add(key.Key("from"), "from is another name of source, and they differ", "write one of them")
	}
	if c.required(key.Key("name"), f.Key.Name, "the file name of the public key") && !fileName.MatchString(f.Key.Name) {
		c.add(key.Key("name"), quoted(f.Key.Name)+" is not a safe file name", `such as "kubelet.client.pub"`)
	}
}

func (c *checker) secretFile(path jsonc.Path, source string) {
	switch {
	case !c.required(path, source, "the name of the secret"):
	case slices.Contains(ClusterSecrets, source):
		c.add(path, quoted(source)+" is a key of the cluster itself", "it never leaves the servers; name another secret")
	case !secretName.MatchString(source):
		c.add(path, quoted(source)+" is not a name of a secret", secretRemedy)
	}
}

func (c *checker) storageFile(path jsonc.Path, source string) {
	if !c.required(path, source, "the key of the object") {
		return
	}
	c.template(path, source, texttemplate.Files)
	literal, _, templated := strings.Cut(source, "{{")
	malformed := validObjectKey(source)
	err := c.cfg.FileSources().Check(literal)
	switch {
	case errors.Is(err, bucket.ErrReserved):
		c.add(path, quoted(source)+" is an object of the servers", "copy what machines may have to files/: "+err.Error()+", and is never a file")
	case !templated && malformed != nil:
		c.add(path, quoted(source)+" is not a key of an object: "+malformed.Error(), keyRemedy)
	case err == nil, templated && literal == "" && c.cfg.Server.AllowAnyStorageSource:
		// what the template makes of it is judged when it is made
	case strings.Contains(literal, "..") || strings.HasPrefix(literal, "/") || c.cfg.Server.AllowAnyStorageSource:
		c.add(path, quoted(source)+" is not a key of an object", keyRemedy)
	default:
		c.add(path, quoted(source)+` is not under "files/"`, `move it there: the rest of the bucket is the servers' own (or set server.allow_any_storage_source)`)
	}
}

func (c *checker) textFile(path jsonc.Path, f File) {
	if !c.doc.Has(path) {
		c.add(path, "required", "what the file contains")
		return
	}
	switch f.Kind {
	case FileString:
		if _, ok := f.Template.(string); !ok {
			c.add(path, "not a string", "a file of kind string has its text as template")
		}
	case FileEnv:
		variables, ok := f.Template.(map[string]any)
		if !ok {
			c.add(path, "not an object", `a file of kind env has an object of strings as template: {"NAME": "value"}`)
		}
		sorted(variables, func(name string, value any) {
			if !envVariable.MatchString(name) {
				c.addKey(path.Key(name), quoted(name)+" is not a name of a variable", "letters, digits and _, not beginning with a digit")
			}
			if _, ok := value.(string); !ok {
				c.add(path.Key(name), "not a string", "write the value in quotes")
			}
		})
	}
	c.tree(path, f.Template, texttemplate.Files)
}

func (c *checker) groups(path jsonc.Path) {
	sorted(c.cfg.Groups, func(tenant string, groups map[string]Group) {
		if !c.cfg.HasTenant(tenant) && !c.silent(section("tenant")) {
			c.addKey(path.Key(tenant), "there is no tenant "+quoted(tenant), "add it to tenants, or move its groups")
		}
		sorted(groups, func(key string, g Group) { c.group(path.Key(tenant).Key(key), key, g) })
	})
}

func (c *checker) group(path jsonc.Path, key string, g Group) {
	c.name(path, key)
	c.size(path.Key("size"), g.Size)
	var t Template
	if c.required(path.Key("template"), g.Template, "the key of a template") && reference(c, path.Key("template"), "template", g.Template, c.cfg.Templates) {
		t = c.cfg.Templates[g.Template]
		if len(g.InstanceType) == 0 && len(t.InstanceType) == 0 {
			c.add(path.Key("instance_type"), "required, because the template has none", "write one here or in the template")
		}
		if g.SubnetPool == "" && t.SubnetPool == "" {
			c.add(path.Key("subnet_pool"), "required, because the template has none", "write one here or in the template")
		}
	}
	c.instanceTypes(path.Key("instance_type"), g.InstanceType, t.Arch)
	if g.SubnetPool != "" {
		reference(c, path.Key("subnet_pool"), "subnet pool", g.SubnetPool, c.cfg.Server.SubnetPools)
	}
	c.unique(path.Key("load_balancers"), g.LoadBalancers)
	for i, lb := range g.LoadBalancers {
		c.groupLoadBalancer(path.Key("load_balancers").Index(i), lb)
	}
	c.vars(path.Key("vars"), g.Vars)
	c.args(path.Key("args"), g.Args)
	if r := g.Rails; r != nil {
		if r.NeverRegisteredPerHour != nil {
			c.atLeastOne(path.Key("rails").Key("never_registered_per_hour"), *r.NeverRegisteredPerHour)
		}
		c.windows(path.Key("rails").Key("maintenance_windows"), r.MaintenanceWindows)
		c.without(path.Key("rails").Key("max_delete_share"), "the bound is the shard's, server.rails.max_delete_share")
	}
}

func (c *checker) groupLoadBalancer(path jsonc.Path, key string) {
	if !reference(c, path, "load balancer", key, c.cfg.LoadBalancers) {
		return
	}
	if lb, kind := c.cfg.LoadBalancers[key], c.cfg.Server.Provider.Kind; kind != "" && lb.Provider != "" && lb.Provider != kind {
		c.add(path, quoted(key)+" is a load balancer of "+lb.Provider, "the shard's provider is "+kind)
	}
}
