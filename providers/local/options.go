package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"nstance.dev/protos/identity"
)

// Options are the settings of a [Driver]. Dir is required; the other zero
// fields take the defaults.
type Options struct {
	Dir   string // where the machines live; made if it is missing
	Agent string // the agent's binary; nstance-agent beside the running binary

	// Room is how many machines fit into a subnet, by its name; one that is not
	// here takes any number. It makes a box fill up like a cloud.
	Room map[string]int

	// Addresses are those of which each machine is said to have one, by its id; zero: none
	// is known, as all share those of the box. Nothing can be reached there.
	Addresses netip.Prefix

	Shard string           // names the machines' URIs; "local"
	Log   *slog.Logger     // hears of trouble in work that nobody waits for; discards
	Now   func() time.Time // decides when marks are old enough to be forgotten; time.Now
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

// CheckOption says what is wrong with one of the provider's options; see
// [ParseOptions].
func CheckOption(name string, value any) error { return new(Options).set(name, value) }

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

// addressOf is the address that a machine is said to have; zero without Addresses. Two
// machines may be said to have the same one.
func (o Options) addressOf(id identity.ID) netip.Addr {
	if !o.Addresses.IsValid() {
		return netip.Addr{}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	host := h.Sum32() & (1<<(32-o.Addresses.Bits()) - 1)
	network := o.Addresses.Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(network[:])|max(host, 1))))
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

// complete fills in the defaults and checks what can be checked beforehand.
func (o Options) complete() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("dir: missing; set it to the directory in which the machines shall live")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("dir: %w", err)
	}
	o.Dir = dir
	if o.Agent == "" {
		self, err := os.Executable()
		if err != nil {
			return o, fmt.Errorf("agent: find the directory of this binary: %w", err)
		}
		o.Agent = filepath.Join(filepath.Dir(self), "nstance-agent")
	}
	if o.Agent, err = filepath.Abs(o.Agent); err != nil {
		return o, fmt.Errorf("agent: %w", err)
	}
	if err := checkAgent(o.Agent); err != nil {
		return o, err
	}
	if o.Shard == "" {
		o.Shard = "local"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}

func checkAgent(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("agent: %w; build it, or set \"agent\" to where it is", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("agent: %s is not an executable file", path)
	}
	return nil
}
