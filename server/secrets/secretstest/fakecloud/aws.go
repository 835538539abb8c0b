// Package fakecloud stands in for the secrets services of the clouds in tests. It
// speaks their wire protocols, so that the SDKs run against it as they are, and
// it is as strict as they are about what it accepts; what it refuses it quotes in
// its errors, secrets included, as they do.
package fakecloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// AWS is the Parameter Store and the Secrets Manager of one account.
type AWS struct {
	URL string // the end point of both services

	mu         sync.Mutex
	parameters map[string]parameter
	secrets    map[string]*secret
	calls      []string
	fault      func(action string) Fault
}

// Fault is what goes wrong with one call. The zero value is nothing.
type Fault struct {
	Code string // the error that is answered, such as "ThrottlingException"
	Lost bool   // the call takes effect, and its answer is an error of the server
}

// NewAWS starts an empty account, which ends with the test.
func NewAWS(t testing.TB) *AWS {
	a := &AWS{parameters: map[string]parameter{}, secrets: map[string]*secret{}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// SetFault has fault say what goes wrong with each call from now on.
func (a *AWS) SetFault(fault func(action string) Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = fault
}

// Calls returns the actions that were asked for so far, in order.
func (a *AWS) Calls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// apiError is answered with status 400.
type apiError struct{ code, message string }

func (e apiError) Error() string { return e.code + ": " + e.message }

// ServeHTTP implements [http.Handler].
func (a *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	service, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if err != nil || !strings.Contains(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256") {
		answer(w, http.StatusForbidden, map[string]string{"__type": "UnrecognizedClientException", "message": "not signed"})
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, action)
	var fault Fault
	if a.fault != nil {
		fault = a.fault(action)
	}
	if fault.Code != "" {
		answer(w, http.StatusBadRequest, map[string]string{"__type": fault.Code, "message": "fault of the test: " + string(body)})
		return
	}
	out, err := a.act(service, action, body)
	switch failed, ok := errors.AsType[apiError](err); {
	case fault.Lost:
		answer(w, http.StatusInternalServerError, map[string]string{"__type": "InternalServerError", "message": "lost"})
	case ok:
		answer(w, http.StatusBadRequest, map[string]string{"__type": failed.code, "message": failed.message})
	case err != nil:
		answer(w, http.StatusBadRequest, map[string]string{"__type": "SerializationException", "message": err.Error()})
	default:
		answer(w, http.StatusOK, out)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (a *AWS) act(service, action string, body []byte) (any, error) {
	switch service + "." + action {
	case "AmazonSSM.GetParameter":
		return call(body, a.getParameter)
	case "AmazonSSM.PutParameter":
		return call(body, a.putParameter)
	case "AmazonSSM.DeleteParameter":
		return call(body, a.deleteParameter)
	case "AmazonSSM.GetParametersByPath":
		return call(body, a.getParametersByPath)
	case "secretsmanager.GetSecretValue":
		return call(body, a.getSecretValue)
	case "secretsmanager.CreateSecret":
		return call(body, a.createSecret)
	case "secretsmanager.PutSecretValue":
		return call(body, a.putSecretValue)
	case "secretsmanager.DeleteSecret":
		return call(body, a.deleteSecret)
	case "secretsmanager.ListSecrets":
		return call(body, a.listSecrets)
	}
	return nil, apiError{"UnknownOperationException", service + "." + action}
}

func call[T any](body []byte, do func(T) (any, error)) (any, error) {
	var in T
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	return do(in)
}

// pageSize is small, as a page may always be, so that every listing has several.
const pageSize = 2

// page returns the keys of one page and the token of the next, "" on the last.
func page(keys []string, token string) ([]string, string) {
	slices.Sort(keys)
	first, _ := slices.BinarySearch(keys, token)
	keys = keys[first:]
	if len(keys) <= pageSize {
		return keys, ""
	}
	return keys[:pageSize], keys[pageSize]
}

func invalid(value, member, constraint string) error {
	return apiError{"ValidationException", fmt.Sprintf(
		"1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", value, member, constraint)}
}
