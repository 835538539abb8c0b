package rules

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
)

// Options are the provider's options in a server's configuration.
type Options struct {
	Dir   string // where the machines live; required
	Agent string // the agent's binary; empty: nstance-agent beside the running binary

	// Room is how many machines fit into a subnet, by its name; one that is not
	// here takes any number.
	Room map[string]int

	// Addresses are those of which each machine is said to have one; zero: none is known.
	Addresses netip.Prefix
}

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
	if _, given := from["dir"]; !given {
		errs = append(errs, errors.New("dir: missing; set it to the directory in which the machines shall live"))
	}
	if err := errors.Join(errs...); err != nil {
		return Options{}, err
	}
	return opts, nil
}

// set takes one option over from a server's configuration.
func (o *Options) set(key string, value any) error {
	switch key {
	case "dir":
		if text, ok := value.(string); ok && text != "" && !filepath.IsAbs(text) {
			return fmt.Errorf("%q is relative to wherever the server is started; write the whole path", text)
		}
		return setPath(&o.Dir, value)
	case "agent":
		return setPath(&o.Agent, value)
	case "room":
		return o.setRoom(value)
	case "addresses":
		return o.setAddresses(value)
	}
	return errors.New(`unknown option; the local provider has "dir", "agent", "room" and "addresses"`)
}

func setPath(field *string, value any) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return fmt.Errorf("is %v, must be a path", value)
	}
	*field = text
	return nil
}

func (o *Options) setAddresses(value any) error {
	text, _ := value.(string)
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is4() || prefix.Bits() > 16 {
		return fmt.Errorf("is %v, must be an IPv4 network of at least 65536 addresses, such as \"10.77.0.0/16\"", value)
	}
	o.Addresses = prefix.Masked()
	return nil
}

func (o *Options) setRoom(value any) error {
	limits, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("is %v, must be an object of subnets and numbers of machines", value)
	}
	o.Room = make(map[string]int, len(limits))
	for _, subnet := range slices.Sorted(maps.Keys(limits)) {
		n, err := strconv.ParseUint(fmt.Sprint(limits[subnet]), 10, 31) // a json.Number, or Go's own
		if err != nil {
			return fmt.Errorf("%s: is %v, must be a number of machines", subnet, limits[subnet])
		}
		o.Room[subnet] = int(n)
	}
	return nil
}
