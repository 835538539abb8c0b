package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options are the provider's options in a server's configuration; zero fields were not set.
type Options struct {
	InsecureTLS     bool
	CAFile          string
	Fingerprints    []string // each of the form that ParseFingerprint reads
	ISOStorage      string
	ProviderURI     string // URINstance or URICCM
	ParallelClones  int    // 1 to 16
	PlacementMemory string // MemoryCommitted or MemoryUsed
}

// The forms of a machine's URI.
const (
	URINstance = "nstance"
	URICCM     = "ccm"
)

// What counts as the memory that a node has left.
const (
	MemoryCommitted = "committed" // what no guest that runs may take; the default
	MemoryUsed      = "used"      // what no guest has touched
)

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

// set takes one option over from a server's configuration.
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
		if value != MemoryCommitted && value != MemoryUsed {
			return fmt.Errorf("is %v, must be %q or %q", value, MemoryCommitted, MemoryUsed)
		}
		return setText(&o.PlacementMemory, value, "")
	case "provider_uri":
		if value != URINstance && value != URICCM {
			return fmt.Errorf("is %v, must be %q or %q", value, URINstance, URICCM)
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
		if _, err := ParseFingerprint(text); err != nil {
			return err
		}
		o.Fingerprints = append(o.Fingerprints, text)
	}
	return nil
}

// ParseFingerprint reads a SHA-256 fingerprint as Proxmox VE shows it.
func ParseFingerprint(text string) (sum [sha256.Size]byte, err error) {
	data, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err != nil || len(data) != len(sum) {
		return sum, fmt.Errorf("%q is not a SHA-256 fingerprint; pvenode cert info shows it: 64 hexadecimal digits, in pairs with colons", text)
	}
	return [sha256.Size]byte(data), nil
}
