package aws

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Options are the settings of a [Driver]. The zero value takes everything from
// the environment of the process, as the SDK does.
type Options struct {
	Region string // of the account; the SDK's own
	Zone   string // of the machines, such as us-east-1a; names their URIs

	Profile string             // of the shared configuration files; the SDK's own
	Prices  map[string]float64 // USD for an hour of an instance type; EC2 does not say

	// OtherZones allows subnets that are not in Zone. Their machines have URIs that name
	// Zone all the same.
	OtherZones bool

	// LeaderIP and LeaderInterface are the address that moves to the leader and
	// the network interface that carries it. Empty: none.
	LeaderIP        string
	LeaderInterface string

	HTTPClient *http.Client               // for every call; the SDK's own
	Log        *slog.Logger               // hears of doubts that fail no call; discards
	Now        func() time.Time           // decides when what is remembered is too old; time.Now
	Addresses  func() ([]net.Addr, error) // those of this box; net.InterfaceAddrs
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
	if err := errors.Join(errs...); err != nil {
		return Options{}, err
	}
	return opts, nil
}

// checkOption says what is wrong with one of the provider's options; see
// [ParseOptions].
func checkOption(name string, value any) error { return new(Options).set(name, value) }

// set takes one option over from a server's configuration.
func (o *Options) set(key string, value any) error {
	switch key {
	case "profile":
		text, ok := value.(string)
		if !ok || text == "" {
			return fmt.Errorf("is %v, must be the name of a profile in the AWS configuration files", value)
		}
		o.Profile = text
		return nil
	case "prices":
		return o.setPrices(value)
	case "other_zones":
		on, ok := value.(bool)
		if !ok {
			return fmt.Errorf("is %v, must be true or false", value)
		}
		o.OtherZones = on
		return nil
	}
	return errors.New(`unknown option; the provider aws has "other_zones", "prices" and "profile"`)
}

func (o *Options) setPrices(value any) error {
	prices, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("is %v, must be an object of instance types and prices of an hour in USD", value)
	}
	o.Prices = make(map[string]float64, len(prices))
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		usd, err := strconv.ParseFloat(fmt.Sprint(prices[name]), 64) // a json.Number, or Go's own
		if err != nil || usd < 0 || math.IsInf(usd, 0) || math.IsNaN(usd) {
			return fmt.Errorf("%s: is %v, must be the price of an hour in USD, such as 0.0336", name, prices[name])
		}
		o.Prices[name] = usd
	}
	return nil
}

// complete fills in the defaults and checks what can be checked beforehand.
func (o Options) complete() (Options, error) {
	if (o.LeaderIP == "") != (o.LeaderInterface == "") {
		return o, errors.New("leader_network: needs both ip and interface_id")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Addresses == nil {
		o.Addresses = net.InterfaceAddrs
	}
	return o, nil
}
