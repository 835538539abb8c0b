package proxmox

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"nstance.dev/providers/proxmox/rules"
)

// Options are the settings of a [Driver]. The token is required; other zero fields
// take the defaults.
type Options struct {
	URL         string // of the API, or several of one cluster with commas; https://localhost:8006/api2/json
	TokenID     string // user@realm!name
	TokenSecret string

	TokenSecretFile string // holds the secret, in place of TokenSecret; read once

	InsecureTLS bool   // take any certificate of the API
	CAFile      string // PEM; the CA bundle of the system

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

const defaultURL = "https://localhost:8006/api2/json"

// ParseOptions reads the provider's options from a server's configuration. The
// error names every unknown key and every value of the wrong type.
func ParseOptions(from map[string]any) (Options, error) {
	o, err := rules.ParseOptions(from)
	return Options{
		InsecureTLS: o.InsecureTLS, CAFile: o.CAFile, Fingerprints: o.Fingerprints, ISOStorage: o.ISOStorage,
		ProviderURI: o.ProviderURI, ParallelClones: o.ParallelClones, PlacementMemory: o.PlacementMemory,
	}, err
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
		o.ProviderURI = rules.URINstance
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
