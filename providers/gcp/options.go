package gcp

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Environment variables that stand in for options.
const (
	// EnvProject is the project where the option "project" is not set. It is the
	// variable of Google's own programs.
	EnvProject = "GOOGLE_CLOUD_PROJECT"
	// EnvEndpoint is the endpoint where the option "endpoint" is not set.
	EnvEndpoint = "NSTANCE_GCE_ENDPOINT"
)

// Options are the settings of a [Driver]. Zone is required; the other zero fields
// take the defaults.
type Options struct {
	// Project holds the machines. Default: that of the environment
	// ([EnvProject]), then that of the credentials.
	Project string
	// Region is that of subnets which are given by name. Default: the zone's.
	Region string
	// Zone holds the machines.
	Zone string
	// Endpoint is the API's address, scheme and host. Default: that of the
	// environment ([EnvEndpoint]), then Google's.
	Endpoint string
	// Prices are those of an hour of a machine type, in USD. The API of the machines
	// has none. Nil: none are known.
	Prices map[string]float64
	// LeaderIP is the address that moves with leadership; the zero value is none.
	LeaderIP netip.Addr

	// HTTPClient sends the calls as they are, authorized or not. Default: one that
	// has the application default credentials.
	HTTPClient *http.Client
	// Metadata sends the questions to the metadata server. Default: as the SDK does.
	Metadata *http.Client

	Log *slog.Logger     // hears of what is done without; discards
	Now func() time.Time // decides how long answers are kept; time.Now
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
	case "project":
		return setChecked(&o.Project, value, checkProject)
	case "endpoint":
		return setChecked(&o.Endpoint, value, checkEndpoint)
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
		return fmt.Errorf("%q is no project; give its id, such as my-project-1", text)
	}
	return nil
}

func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%q is no address of an API; give scheme and host, such as https://compute.googleapis.com", text)
	}
	return nil
}

// complete fills in what needs no look at the cloud, and checks it.
func (o Options) complete() (Options, error) {
	if o.Project == "" {
		o.Project = os.Getenv(EnvProject)
	}
	if o.Endpoint == "" {
		o.Endpoint = os.Getenv(EnvEndpoint)
	}
	if o.Endpoint != "" {
		if err := checkEndpoint(o.Endpoint); err != nil {
			return o, fmt.Errorf("endpoint: %w", err)
		}
	}
	cut := strings.LastIndexByte(o.Zone, '-')
	switch {
	case o.Zone == "":
		return o, errors.New("zone: missing; set server.provider.zone, such as europe-west4-a")
	case cut <= 0:
		return o, fmt.Errorf("zone: %q is no zone; it looks like europe-west4-a", o.Zone)
	case o.Region == "":
		o.Region = o.Zone[:cut]
	case o.Region != o.Zone[:cut]:
		return o, fmt.Errorf("region: %q is not that of zone %q; leave it out, or set %q", o.Region, o.Zone, o.Zone[:cut])
	}
	if o.LeaderIP.IsValid() && !o.LeaderIP.Is4() {
		return o, fmt.Errorf("leader_network.ip: %s is no IPv4 address, and only those can be alias addresses", o.LeaderIP)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
