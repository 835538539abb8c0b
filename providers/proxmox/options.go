package proxmox

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Options are the settings of a [Driver]. The token is required; other zero fields
// take the defaults.
type Options struct {
	URL         string // of the API, or several of one cluster with commas; https://localhost:8006/api2/json
	TokenID     string // user@realm!name
	TokenSecret string

	TokenSecretFile string // holds the secret, in place of TokenSecret; read once

	InsecureTLS bool   // take any certificate of the API
	CAFile      string // PEM; the authorities of the system

	// Fingerprints are the SHA-256 fingerprints of the certificates that the API may have,
	// in place of an authority that vouches for them; they count before InsecureTLS, and
	// that before CAFile.
	Fingerprints []string

	ISOStorage  string // for the machines' CDs; local
	ProviderURI string // nstance or ccm, see [Driver.ProviderURI]; nstance

	// ParallelClones is how many clones may be made onto one storage at once, 1 to 16. 1.
	ParallelClones int

	// PlacementMemory says which memory of a node counts as free: "committed", what is
	// left if every guest that runs takes all that it may; or "used", what none has
	// touched. committed.
	PlacementMemory string

	Region string // names the machines' URIs, with ccm
	Shard  string // names the machines' URIs, with nstance

	Log       *slog.Logger      // hears of what is left behind; discards
	Transport http.RoundTripper // to the API; by HTTPS
	Now       func() time.Time  // time.Now

	urls []*url.URL // of URL
}

// The forms of a machine's URI.
const (
	uriNstance = "nstance"
	uriCCM     = "ccm"
)

const defaultURL = "https://localhost:8006/api2/json"

const maxParallelClones = 16

// ParseOptions reads the provider's options from a server's configuration. The
// error names every unknown key and every value of the wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	var opts Options
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if err := opts.set(key, from[key]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return opts, errors.Join(errs...)
}

// checkOption says what is wrong with one of the provider's options; see
// [ParseOptions].
func checkOption(name string, value any) error { return new(Options).set(name, value) }

func (o *Options) set(key string, value any) error {
	switch key {
	case "insecure_tls":
		on, ok := value.(bool)
		if !ok {
			return fmt.Errorf("is %v, must be true or false", value)
		}
		o.InsecureTLS = on
		return nil
	case "ca_file":
		return setText(&o.CAFile, value, "a path")
	case "fingerprints":
		return o.setFingerprints(value)
	case "cloud_init_iso_storage":
		if err := setText(&o.ISOStorage, value, "the name of a storage"); err != nil {
			return err
		}
		return setName(&o.ISOStorage, o.ISOStorage, storageName, "a storage")
	case "parallel_clones":
		return setNumber(&o.ParallelClones, fmt.Sprint(value), 1, maxParallelClones)
	case "placement_memory":
		if value != memoryCommitted && value != memoryUsed {
			return fmt.Errorf("is %v, must be %q or %q", value, memoryCommitted, memoryUsed)
		}
		return setText(&o.PlacementMemory, value, "")
	case "provider_uri":
		if value != uriNstance && value != uriCCM {
			return fmt.Errorf("is %v, must be %q or %q", value, uriNstance, uriCCM)
		}
		return setText(&o.ProviderURI, value, "")
	}
	return errors.New(`unknown option; the proxmox provider has "insecure_tls", "ca_file", "fingerprints", "cloud_init_iso_storage", "parallel_clones", "placement_memory" and "provider_uri"`)
}

func setText(field *string, value any, what string) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return fmt.Errorf("is %v, must be %s", value, what)
	}
	*field = text
	return nil
}

// setFingerprints reads one, or a list of them.
func (o *Options) setFingerprints(value any) error {
	list, is := value.([]any)
	if !is {
		list = []any{value}
	}
	if len(list) == 0 {
		return errors.New("is empty; give the fingerprint of each node's certificate, or leave it out")
	}
	for _, one := range list {
		text, _ := one.(string)
		if _, err := parseFingerprint(text); err != nil {
			return err
		}
		o.Fingerprints = append(o.Fingerprints, text)
	}
	return nil
}

// complete fills in the defaults and checks what can be checked beforehand.
func (o Options) complete() (Options, error) {
	if o.URL == "" {
		o.URL = defaultURL
	}
	if o.ISOStorage == "" {
		o.ISOStorage = "local"
	}
	if o.ProviderURI == "" {
		o.ProviderURI = uriNstance
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var errs []error
	o.urls, errs = parseURLs(o.URL)
	if err := o.readSecret(); err != nil {
		return o, err
	}
	return o, errors.Join(append(errs, o.checkToken())...)
}
