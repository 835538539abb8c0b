package rules

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options are the provider's options in a server's configuration; zero fields were not set.
type Options struct {
	Project  string             // that holds the machines
	Endpoint string             // of the API, scheme and host
	Prices   map[string]float64 // of an hour of a machine type, in USD
}

// The forms of names; see https://cloud.google.com/compute/docs/naming-resources.
var (
	projectID = regexp.MustCompile(`^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

	// ResourceName is that of most kinds of resource.
	ResourceName = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

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
	case "project":
		return setChecked(&o.Project, value, checkProject)
	case "endpoint":
		return setChecked(&o.Endpoint, value, CheckEndpoint)
	case "prices":
		return o.setPrices(value)
	}
	return errors.New(`unknown option; Google's are "project", "endpoint" and "prices"`)
}

func setChecked(field *string, value any, check func(string) error) error {
	text, ok := value.(string)
	if !ok || text == "" {
		return fmt.Errorf("is %v, must be a text", value)
	}
	*field = text
	return check(text)
}

func (o *Options) setPrices(value any) error {
	prices, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("is %v, must be an object of machine types and prices", value)
	}
	o.Prices = make(map[string]float64, len(prices))
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		usd, err := strconv.ParseFloat(fmt.Sprint(prices[name]), 64) // a json.Number, or Go's own
		if err != nil || !(usd >= 0 && usd < 1e6) {
			return fmt.Errorf("%s: is %v, must be the price of an hour in USD, such as 0.0336", name, prices[name])
		}
		o.Prices[name] = usd
	}
	return nil
}

func checkProject(text string) error {
	if !projectID.MatchString(text) {
		return fmt.Errorf("%q is not a project id, such as my-project-1", text)
	}
	return nil
}

// CheckEndpoint says what is wrong with the address of the API.
func CheckEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%q is not an API address; it must have scheme and host, such as https://compute.googleapis.com", text)
	}
	return nil
}
