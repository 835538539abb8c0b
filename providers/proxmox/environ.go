package proxmox

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// The environment that [Options.Environ] reads.
const (
	EnvURL             = "PROXMOX_API_URL"
	EnvTokenID         = "PROXMOX_TOKEN_ID"
	EnvTokenSecret     = "PROXMOX_TOKEN_SECRET"      //nolint:gosec // the name of one
	EnvTokenSecretFile = "PROXMOX_TOKEN_SECRET_FILE" //nolint:gosec // the name of one
)

// The same by the names that the two Terraform providers for Proxmox VE have for it. Ours
// count before them.
const (
	otherURL1    = "PROXMOX_VE_ENDPOINT"
	otherURL2    = "PM_API_URL"
	otherToken   = "PROXMOX_VE_API_TOKEN" //nolint:gosec // the name of one: user@realm!name=secret
	otherTokenID = "PM_API_TOKEN_ID"
	otherSecret  = "PM_API_TOKEN_SECRET" //nolint:gosec // the name of one
)

const (
	apiPath      = "/api2/json"
	exampleToken = "nstance@pve!server"
)

// Environ returns the options with the API's addresses and the token out of the
// environment, as getenv knows it.
func (o Options) Environ(getenv func(string) string) Options {
	o.URL, o.TokenID, o.TokenSecret = getenv(EnvURL), getenv(EnvTokenID), getenv(EnvTokenSecret)
	o.TokenSecretFile = getenv(EnvTokenSecretFile)
	for _, name := range []string{otherURL1, otherURL2} {
		if o.URL == "" {
			o.URL = getenv(name)
		}
	}
	if o.TokenID != "" || o.TokenSecret != "" || o.TokenSecretFile != "" {
		return o // one token is not put together from two
	}
	if id, secret, ok := strings.Cut(getenv(otherToken), "="); ok {
		o.TokenID, o.TokenSecret = id, secret
		return o
	}
	o.TokenID, o.TokenSecret = getenv(otherTokenID), getenv(otherSecret)
	return o
}

// parseURLs reads addresses of the API with commas between them. One without a path gets
// that of the API.
func parseURLs(list string) (urls []*url.URL, errs []error) {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		u, err := url.Parse(text)
		if err == nil && strings.Trim(u.Path, "/") == "" {
			u.Path = apiPath
		}
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || !strings.HasSuffix(strings.TrimRight(u.Path, "/"), apiPath) {
			errs = append(errs, fmt.Errorf("%s is not the address of an API; write it like %q; several addresses of one cluster have commas between them", EnvURL, defaultURL))
			continue
		}
		u.Path = strings.TrimRight(u.Path, "/")
		u.RawPath, u.RawQuery, u.Fragment = "", "", ""
		urls = append(urls, u)
	}
	return urls, errs
}

// readSecret takes the token's secret out of its file.
func (o *Options) readSecret() error {
	if o.TokenSecretFile == "" {
		return nil
	}
	if o.TokenSecret != "" {
		return fmt.Errorf("%s and %s are both set; unset one", EnvTokenSecret, EnvTokenSecretFile)
	}
	data, err := os.ReadFile(o.TokenSecretFile)
	if err != nil {
		return fmt.Errorf("%s: %w", EnvTokenSecretFile, err)
	}
	if o.TokenSecret = strings.TrimSpace(string(data)); o.TokenSecret == "" {
		return fmt.Errorf("%s: %s is empty", EnvTokenSecretFile, o.TokenSecretFile)
	}
	return nil
}

// checkToken never names the secret.
func (o Options) checkToken() error {
	user, name, ok := strings.Cut(o.TokenID, "!")
	switch {
	case o.TokenID == "":
		return fmt.Errorf("%s is not set; make a token and set it to its id, such as %s", EnvTokenID, exampleToken)
	case strings.Contains(o.TokenID, "="):
		return errors.New(EnvTokenID + " holds a secret too; it must be like " + exampleToken)
	case !ok || name == "" || !strings.Contains(user, "@"):
		return fmt.Errorf("%s is %q; it must be like %s", EnvTokenID, o.TokenID, exampleToken)
	case o.TokenSecret == "":
		return fmt.Errorf("%s is not set; it is what the making of token %s printed, once", EnvTokenSecret, o.TokenID)
	}
	return nil
}
