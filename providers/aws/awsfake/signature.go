package awsfake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	longestBody = 1 << 20
	signedFor   = 5 * time.Minute // "Troubleshoot signed requests": a signature lives that long
)

// authenticated checks the signature of a call (AWS Signature Version 4 in the
// header Authorization) and returns its parameters, with an error too as far as
// they could be read.
func (c *Cloud) authenticated(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, longestBody))
	if err != nil {
		return nil, refuse("MalformedQueryString", "The body cannot be read")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, refuse("MalformedQueryString", "The query string contains a syntax error")
	}
	if r.Method != http.MethodPost {
		return values, refuse("InvalidAction", "This stand-in answers to POST alone")
	}
	return values, c.checkSignature(r, body, service(values.Get("Version")).name)
}

// credential is the scope of a signature.
type credential struct {
	key, date, region, service string
	signed                     []string // names of headers
	signature                  string
}

const algorithm = "AWS4-HMAC-SHA256 "

func parseAuthorization(header string) (credential, bool) {
	rest, ok := strings.CutPrefix(header, algorithm)
	parts := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		parts[name] = value
	}
	scope := strings.Split(parts["Credential"], "/")
	if !ok || len(scope) != 5 || scope[4] != "aws4_request" || parts["SignedHeaders"] == "" || parts["Signature"] == "" {
		return credential{}, false
	}
	return credential{scope[0], scope[1], scope[2], scope[3], strings.Split(parts["SignedHeaders"], ";"), parts["Signature"]}, true
}

func (c *Cloud) checkSignature(r *http.Request, body []byte, service string) error {
	header := r.Header.Get("Authorization")
	if header == "" {
		return &apiError{http.StatusForbidden, "MissingAuthenticationToken", "Request is missing Authentication Token"}
	}
	said, ok := parseAuthorization(header)
	if !ok {
		return refuse("IncompleteSignature", "The request signature does not conform to AWS standards")
	}
	secret, known := c.opts.Keys[said.key]
	if !known {
		return &apiError{http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials"}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || said.region != c.opts.Region || said.service != service || said.date != at.Format("20060102") {
		return &apiError{http.StatusForbidden, "SignatureDoesNotMatch",
			"Credential should be scoped to " + c.opts.Region + "/" + service + " and to the date of the request"}
	}
	if age := time.Since(at); age > signedFor || age < -signedFor {
		return refuse("RequestExpired", "Request has expired.")
	}
	again, err := signAgain(r, body, said, secret, at)
	if err != nil || again != said.signature {
		return &apiError{http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided."}
	}
	return nil
}

// signAgain returns the signature that the holder of secret would have made.
func signAgain(r *http.Request, body []byte, said credential, secret string, at time.Time) (string, error) {
	copied, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	for _, name := range said.signed {
		if name != "host" && name != "content-length" {
			copied.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	hash := sha256.Sum256(body)
	keys := aws.Credentials{AccessKeyID: said.key, SecretAccessKey: secret, SessionToken: r.Header.Get("X-Amz-Security-Token")}
	if err := v4.NewSigner().SignHTTP(r.Context(), keys, copied, hex.EncodeToString(hash[:]), said.service, said.region, at); err != nil {
		return "", err
	}
	again, _ := parseAuthorization(copied.Header.Get("Authorization"))
	return again.signature, nil
}
