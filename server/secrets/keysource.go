package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"nstance.dev/protos/identity"
)

// ErrKeyProvider is about a provider of keys that this program does not have.
var ErrKeyProvider = errors.New("unknown key provider")

// KeySource provides encryption keys: one, or two while the key is being
// changed, of which the first encrypts.
type KeySource interface {
	Keys(ctx context.Context) ([]Key, error)
}

// Names of the providers of encryption keys.
const (
	KeyProviderEnv  = "env"
	KeyProviderFile = "file"
)

// keyProviders makes a source of each provider.
var keyProviders = []struct {
	name string
	open func(source string) (KeySource, error)
}{
	{KeyProviderEnv, openEnv},
	{KeyProviderFile, openFile},
}

// OpenKeySource returns the source that configuration names by a provider and
// a source, whose meaning depends on the provider: a variable's name, by default
// NSTANCE_ENCRYPTION_KEY, for "env"; a path for "file". Nothing is read yet. The
// error for a provider that this program lacks matches [ErrKeyProvider] and says
// which it has.
func OpenKeySource(provider, source string) (KeySource, error) {
	var names []string
	for _, p := range keyProviders {
		if p.name == provider {
			return p.open(source)
		}
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("%w %q: this program has %s", ErrKeyProvider, provider, strings.Join(names, " and "))
}

// LoadKeys returns the keys of current, then those of each old source: the
// order in which [NewSealed] takes them. Without a current source there are no
// keys, and old ones are an error, because nothing could be written.
func LoadKeys(ctx context.Context, current KeySource, old ...KeySource) ([]Key, error) {
	if current == nil {
		if len(old) > 0 {
			return nil, fmt.Errorf("%w: there are old keys but no current one", ErrKey)
		}
		return nil, nil
	}
	keys, err := current.Keys(ctx)
	if err != nil {
		return nil, fmt.Errorf("encryption key: %w", err)
	}
	for i, source := range old {
		more, err := source.Keys(ctx)
		if err != nil {
			return nil, fmt.Errorf("old encryption key %d: %w", i+1, err)
		}
		keys = append(keys, more...)
	}
	return keys, nil
}

// KeysFrom returns the source of what fetch returns, which is read anew each
// time. The place is for errors, and must not be a secret itself.
func KeysFrom(place string, fetch func(context.Context) (Secret, error)) KeySource {
	return fetched{place, fetch}
}

type fetched struct {
	place string
	fetch func(context.Context) (Secret, error)
}

// Keys implements [KeySource].
func (f fetched) Keys(ctx context.Context) ([]Key, error) {
	data, err := f.fetch(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.place, err)
	}
	return keys, nil
}

type envSource string

func openEnv(source string) (KeySource, error) {
	if source == "" {
		source = identity.EnvEncryptionKey
	}
	return envSource(source), nil
}

// Keys reads the variable anew each time.
func (s envSource) Keys(context.Context) ([]Key, error) {
	value := os.Getenv(string(s))
	if value == "" {
		return nil, fmt.Errorf("%w: environment variable %s is empty or not set", ErrKey, string(s))
	}
	keys, err := ParseKeys([]byte(value))
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", string(s), err)
	}
	return keys, nil
}

type fileSource string

func openFile(source string) (KeySource, error) {
	if source == "" {
		return nil, fmt.Errorf("%w: provider %q needs a path as its source", ErrKey, KeyProviderFile)
	}
	return fileSource(source), nil
}

// Keys reads the file anew each time.
func (s fileSource) Keys(context.Context) ([]Key, error) {
	const most = 1 << 10 // two keys in any encoding are a quarter of this
	f, err := os.Open(string(s))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err // it names the file
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s: %w: the file is longer than %d bytes", string(s), ErrKey, most)
	}
	keys, err := ParseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", string(s), err)
	}
	return keys, nil
}
