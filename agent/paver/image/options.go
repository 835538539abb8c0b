package image

import (
	"crypto"
	"crypto/x509"
	"log/slog"
	"runtime"

	"nstance.dev/agent/paver/extract"
)

// Options are the settings of a Builder; zero fields take the defaults.
type Options struct {
	Arch   string             // that images must be for, as Go names it; the program's own
	Roots  *x509.CertPool     // that servers are verified with; those of the system
	Keys   []crypto.PublicKey // one of which must have signed an image; none is asked for
	Limits extract.Limits     // of a root
	// Allow says whether content may be fetched from an address. It is asked about mirrors.
	// Default: every address is allowed.
	Allow func(address string) bool
	// Debootstrap is the program; "debootstrap".
	Debootstrap string
	Log         *slog.Logger // slog.Default
}

func (o Options) orDefault() Options {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Allow == nil {
		o.Allow = func(string) bool { return true }
	}
	if o.Debootstrap == "" {
		o.Debootstrap = "debootstrap"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
