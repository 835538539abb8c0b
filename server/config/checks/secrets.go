package checks

import (
	"strings"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
	"nstance.dev/server/layout"
)

func (c serverCheck) secrets(path jsonc.Path) {
	s := &c.cfg.Server.Secrets
	c.oneOf(path.Key("provider"), s.Provider,
		document.SecretsObjectStorage, document.SecretsAWSParameterStore, document.SecretsAWSSecretsManager, document.SecretsGoogleSecretManager)
	c.secretsPrefix(path.Key("prefix"), *s)
	if s.Provider == document.SecretsGoogleSecretManager {
		c.required(path.Key("project_id"), s.ProjectID, "name the project of the secret manager")
	}
	if s.EncryptionKey != nil {
		c.keySource(path.Key("encryption_key"), *s.EncryptionKey)
		if s.Provider != document.SecretsObjectStorage {
			c.warn(path.Key("encryption_key"), "not used with "+s.Provider, "it seals secrets in object storage only")
		}
	} else if s.Provider == document.SecretsObjectStorage {
		c.warn(path, "secrets are stored in the clear", "set encryption_key")
	}
	for i, k := range s.OldEncryptionKeys {
		c.keySource(path.Key("old_encryption_keys").Index(i), k)
	}
}

func (c serverCheck) keySource(path jsonc.Path, k document.KeySource) {
	known := []string{document.KeyFromEnv, document.KeyFromFile, document.SecretsAWSParameterStore, document.SecretsAWSSecretsManager, document.SecretsGoogleSecretManager}
	if !c.required(path.Key("provider"), k.Provider, "env, file or a secrets manager") || !c.oneOf(path.Key("provider"), k.Provider, known...) {
		return
	}
	c.required(path.Key("source"), k.Source, "say where the key is: a path, or the name of the secret")
	if k.Provider == document.SecretsGoogleSecretManager {
		c.required(path.Key("project_id"), k.ProjectID, "name the project of the secret manager")
	}
}

// secretsPrefix checks what stands before the names of secrets in object storage.
func (c serverCheck) secretsPrefix(path jsonc.Path, s document.Secrets) {
	if s.Provider != document.SecretsObjectStorage || !c.doc.Has(path) {
		return
	}
	err := layout.CheckSecretsPrefix(s.Prefix)
	malformed := document.CheckObjectKey(strings.TrimSuffix(s.Prefix, "/"))
	switch {
	case malformed != nil:
		c.add(path, jsonc.Quoted(s.Prefix)+" can't begin the key of an object: "+malformed.Error(), `a name and a slash, such as "secret/"`)
	case !strings.HasSuffix(s.Prefix, "/"):
		c.add(path, jsonc.Quoted(s.Prefix)+" does not end with a slash", `write "`+s.Prefix+`/", and copy the secrets there first: the cluster's keys must be found`)
	case err != nil:
		c.add(path, err.Error(), `leave it out, or take a prefix of its own, such as "secret/blue/"`)
	}
}
