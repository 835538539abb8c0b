package rules

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Options are the provider's options in a server's configuration; zero fields were not set.
type Options struct {
	Profile    string             // of the shared configuration files
	Prices     map[string]float64 // USD for an hour of an instance type; EC2 does not say
	OtherZones bool               // subnets of other zones are allowed
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
