package checks

import (
	"errors"
	"slices"
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/config/texttemplate"
	"nstance.dev/server/layout"
)

func (c machineCheck) file(path jsonc.Path, name string, f document.File) {
	if !fileName.MatchString(name) {
		c.addKey(path, jsonc.Quoted(name)+" is not a safe file name", "a base name of letters, digits, . _ and -, at most 128, beginning with a letter or digit")
	}
	const without = "a file of kind "
	switch f.Kind {
	case "":
		c.required(path.Key("kind"), "", "certificate, secret, storage, env, json or string")
	case document.FileCertificate:
		c.foreign(path, without+f.Kind, "source")
		c.certificateFile(path, f)
	case document.FileSecret:
		c.foreign(path, without+f.Kind, "template", "key")
		c.secretFile(path.Key("source"), f.Source)
	case document.FileStorage:
		c.foreign(path, without+f.Kind, "template", "key")
		c.storageFile(path.Key("source"), f.Source)
	case document.FileEnv, document.FileJSON, document.FileString:
		c.foreign(path, without+f.Kind, "source", "key")
		c.textFile(path.Key("template"), f)
	default:
		c.oneOf(path.Key("kind"), f.Kind, document.FileCertificate, document.FileSecret, document.FileStorage, document.FileEnv, document.FileJSON, document.FileString)
	}
}

func (c machineCheck) certificateFile(path jsonc.Path, f document.File) {
	template := path.Key("template")
	switch key, ok := f.Template.(string); {
	case !ok:
		c.add(template, "required", "the key of a certificate")
	case key == document.CertificateCA:
		c.add(template, "the CA's own certificate is not issued to machines", "name another certificate")
	default:
		reference(c.report, template, "certificate", key, c.cfg.Certificates)
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
		c.add(key.Key("name"), jsonc.Quoted(f.Key.Name)+" is not a safe file name", `such as "kubelet.client.pub"`)
	}
}

func (c machineCheck) secretFile(path jsonc.Path, source string) {
	switch {
	case !c.required(path, source, "the name of the secret"):
	case slices.Contains(document.ClusterSecrets, source):
		c.add(path, jsonc.Quoted(source)+" is a key of the cluster itself", "it never leaves the servers; name another secret")
	case !document.ValidSecretName(source):
		c.add(path, jsonc.Quoted(source)+" is not a name of a secret", document.SecretRemedy)
	}
}

func (c machineCheck) storageFile(path jsonc.Path, source string) {
	if !c.required(path, source, "the key of the object") {
		return
	}
	c.template(path, source, texttemplate.Files)
	literal, _, templated := strings.Cut(source, "{{")
	malformed := document.CheckObjectKey(source)
	err := c.cfg.FileSources().Check(literal)
	switch {
	case errors.Is(err, layout.ErrReserved):
		c.add(path, jsonc.Quoted(source)+" is an object of the servers", "copy what machines may have to files/: "+err.Error()+", and is never a file")
	case !templated && malformed != nil:
		c.add(path, jsonc.Quoted(source)+" is not a key of an object: "+malformed.Error(), document.KeyRemedy)
	case err == nil, templated && literal == "" && c.cfg.Server.AllowAnyStorageSource:
		// what the template makes of it is judged when it is made
	case strings.Contains(literal, "..") || strings.HasPrefix(literal, "/") || c.cfg.Server.AllowAnyStorageSource:
		c.add(path, jsonc.Quoted(source)+" is not a key of an object", document.KeyRemedy)
	default:
		c.add(path, jsonc.Quoted(source)+` is not under "files/"`, `move it there: the rest of the bucket is the servers' own (or set server.allow_any_storage_source)`)
	}
}

func (c machineCheck) textFile(path jsonc.Path, f document.File) {
	if !c.doc.Has(path) {
		c.add(path, "required", "what the file contains")
		return
	}
	switch f.Kind {
	case document.FileString:
		if _, ok := f.Template.(string); !ok {
			c.add(path, "not a string", "a file of kind string has its text as template")
		}
	case document.FileEnv:
		variables, ok := f.Template.(map[string]any)
		if !ok {
			c.add(path, "not an object", `a file of kind env has an object of strings as template: {"NAME": "value"}`)
		}
		sorted(variables, func(name string, value any) {
			if !envVariable.MatchString(name) {
				c.addKey(path.Key(name), jsonc.Quoted(name)+" is not a name of a variable", "letters, digits and _, not beginning with a digit")
			}
			if _, ok := value.(string); !ok {
				c.add(path.Key(name), "not a string", "write the value in quotes")
			}
		})
	}
	c.tree(path, f.Template, texttemplate.Files)
}
