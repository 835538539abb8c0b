// Package backends opens the secrets store and the sources of encryption keys
// that a configuration names. Programs that use secrets link all kinds of them,
// whatever provider their machines are from.
//
// Credentials, regions and end points come from where the SDK of each cloud looks
// for them. Opening a store in object storage reads the encryption keys; no other
// store is asked anything before its first use.
package backends

import (
	"context"
	"errors"
	"fmt"
	"time"

	secretmanager "cloud.google.com/go/secretmanager/apiv1"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"google.golang.org/api/option"

	"nstance.dev/server/config/document"
	"nstance.dev/server/objectstore"
	"nstance.dev/server/secrets"
	"nstance.dev/server/secrets/awssm"
	"nstance.dev/server/secrets/awsssm"
	"nstance.dev/server/secrets/gsm"
)

// ErrKind is about a kind of store, or of key source, that does not exist.
var ErrKind = errors.New("unknown kind of secrets store")

// Clients make the clients of the clouds. The zero value is for the clouds
// themselves.
type Clients struct {
	Google []option.ClientOption // beside the usual ones
}

// Open returns the store that s describes, whose prefix must be set. The objects
// are for secrets in object storage, sealed with the keys that s names; without
// any they are in clear, which the caller should say aloud ([secrets.Sealed]).
// Nothing is cached.
func (c Clients) Open(ctx context.Context, objects objectstore.Store, s document.Secrets) (secrets.Store, error) {
	switch s.Provider {
	case document.SecretsObjectStorage:
		return c.sealed(ctx, objects, s)
	case document.SecretsAWSParameterStore:
		client, err := parameterStore(ctx)
		if err != nil {
			return nil, err
		}
		return limited(awsssm.New(client, s.Prefix))
	case document.SecretsAWSSecretsManager:
		client, err := secretsManager(ctx)
		if err != nil {
			return nil, err
		}
		return limited(awssm.New(client, s.Prefix))
	case document.SecretsGoogleSecretManager:
		client, err := c.google(ctx)
		if err != nil {
			return nil, err
		}
		return limited(gsm.New(client, s.ProjectID, s.Prefix, time.Now))
	}
	return nil, fmt.Errorf("%w %q: it is one of %s, %s, %s, %s", ErrKind, s.Provider, document.SecretsObjectStorage,
		document.SecretsAWSParameterStore, document.SecretsAWSSecretsManager, document.SecretsGoogleSecretManager)
}

func (c Clients) sealed(ctx context.Context, objects objectstore.Store, s document.Secrets) (secrets.Store, error) {
	keys, err := c.keys(ctx, s)
	if err != nil {
		return nil, err
	}
	sealed, err := secrets.NewSealed(objects, s.Prefix, keys)
	if err != nil {
		return nil, err
	}
	return sealed, nil
}

// keys reads the encryption keys, that which encrypts first.
func (c Clients) keys(ctx context.Context, s document.Secrets) ([]secrets.Key, error) {
	var current secrets.KeySource
	if s.EncryptionKey != nil {
		var err error
		if current, err = c.OpenKeySource(ctx, *s.EncryptionKey); err != nil {
			return nil, fmt.Errorf("encryption_key: %w", err)
		}
	}
	var old []secrets.KeySource
	for i, k := range s.OldEncryptionKeys {
		source, err := c.OpenKeySource(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("old_encryption_keys[%d]: %w", i, err)
		}
		old = append(old, source)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return secrets.LoadKeys(ctx, current, old...)
}

// OpenKeySource returns the source of encryption keys that k describes. Nothing is
// read yet.
func (c Clients) OpenKeySource(ctx context.Context, k document.KeySource) (secrets.KeySource, error) {
	switch k.Provider {
	case document.KeyFromEnv, document.KeyFromFile:
		return secrets.OpenKeySource(k.Provider, k.Source)
	case document.SecretsAWSParameterStore:
		client, err := parameterStore(ctx)
		if err != nil {
			return nil, err
		}
		return awsssm.NewKeySource(client, k.Source)
	case document.SecretsAWSSecretsManager:
		client, err := secretsManager(ctx)
		if err != nil {
			return nil, err
		}
		return awssm.NewKeySource(client, k.Source)
	case document.SecretsGoogleSecretManager:
		return googleKeys{c, k}, nil
	}
	return nil, fmt.Errorf("%w %q: it is one of %s, %s, %s, %s, %s", secrets.ErrKeyProvider, k.Provider, document.KeyFromEnv,
		document.KeyFromFile, document.SecretsAWSParameterStore, document.SecretsAWSSecretsManager, document.SecretsGoogleSecretManager)
}

func parameterStore(ctx context.Context) (*ssm.Client, error) {
	cfg, err := awsSettings(ctx)
	if err != nil {
		return nil, err
	}
	return ssm.NewFromConfig(cfg), nil
}

func secretsManager(ctx context.Context) (*secretsmanager.Client, error) {
	cfg, err := awsSettings(ctx)
	if err != nil {
		return nil, err
	}
	return secretsmanager.NewFromConfig(cfg), nil
}

// awsSettings are the SDK's usual ones; a machine of EC2 that is told no region
// works in its own.
func awsSettings(ctx context.Context) (aws.Config, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err == nil && cfg.Region == "" {
		cfg, err = awsconfig.LoadDefaultConfig(ctx, awsconfig.WithEC2IMDSRegion())
	}
	if err != nil {
		return aws.Config{}, fmt.Errorf("settings of the AWS SDK (is AWS_REGION set?): %w", err)
	}
	return cfg, nil
}

// googleKeys has a client only while it reads, because sources are never closed.
type googleKeys struct {
	clients Clients
	source  document.KeySource
}

// Keys implements [secrets.KeySource].
func (g googleKeys) Keys(ctx context.Context) ([]secrets.Key, error) {
	client, err := g.clients.google(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }() // it was for reading
	source, err := gsm.NewKeySource(client, g.source.ProjectID, g.source.Source)
	if err != nil {
		return nil, err
	}
	return source.Keys(ctx)
}

func (c Clients) google(ctx context.Context) (*secretmanager.Client, error) {
	client, err := secretmanager.NewClient(ctx, c.Google...)
	if err != nil {
		return nil, fmt.Errorf("client of Google Secret Manager: %w", err)
	}
	return client, nil
}
