package proxmoxfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

// failure is a refusal. Its reason is what the status line says after the number.
type failure struct {
	status int
	reason string
	errors map[string]string // by parameter, with status 400
}

// Error implements error.
func (f *failure) Error() string { return f.reason }

// die is what the real API does in its code: status 500 and a reason.
func die(format string, args ...any) error {
	return &failure{status: http.StatusInternalServerError, reason: fmt.Sprintf(format, args...)}
}

// badParam refuses one parameter.
func badParam(name, format string, args ...any) error {
	return badParams(map[string]string{name: fmt.Sprintf(format, args...)})
}

func badParams(wrong map[string]string) error {
	return &failure{http.StatusBadRequest, "Parameter verification failed.", wrong}
}

func forbidden(path, privilege string) error {
	return &failure{status: http.StatusForbidden, reason: fmt.Sprintf("Permission check failed (%s, %s)", path, privilege)}
}

func noConfig(node string, vmid int) error {
	return die("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", node, vmid)
}

// answer writes what a call returned.
func answer(data any, err error) wire.Answer {
	if err != nil {
		return refusal(err)
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json;charset=UTF-8")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
}

func refusal(err error) wire.Answer {
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{status: http.StatusInternalServerError, reason: err.Error()}
	}
	body := map[string]any{"data": nil, "message": f.reason + "\n"}
	if f.errors != nil {
		body["errors"] = f.errors
	}
	raw, _ := json.Marshal(body)
	kind := "application/json;charset=UTF-8"
	switch {
	case f.status > 590: // the cluster's own proxy, which has no more words
		raw = nil
	case f.status == http.StatusTooManyRequests: // a proxy that somebody put before it
		raw, kind = []byte("<html><body><h1>"+f.reason+"</h1></body></html>"), "text/html"
	}
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		wire.WriteReason(w, f.status, strings.TrimSpace(f.reason), raw)
	}
}

// inWords is how the API says what a fault's kind means, about a machine or volume.
// Proxmox VE itself never throttles; a proxy in front of it may.
func inWords(kind driver.ErrorClass, node string, vmid int) error {
	switch kind {
	case driver.Throttled:
		return &failure{status: http.StatusTooManyRequests, reason: "Too Many Requests"}
	case driver.Capacity:
		return die("unable to write volume - No space left on device")
	case driver.Quota:
		return die("unable to write volume - Disk quota exceeded")
	case driver.Invalid:
		return badParam("vmid", "invalid format - value does not look like a valid VM ID")
	case driver.Auth:
		return forbidden(fmt.Sprintf("/vms/%d", vmid), "VM.Allocate")
	case driver.MissingRef:
		return die("storage 'gone' does not exist")
	case driver.NotFound:
		return noConfig(node, vmid)
	case driver.Unsupported:
		return &failure{status: http.StatusNotImplemented, reason: "Method not implemented"}
	case driver.Ambiguous:
		return &failure{status: 596, reason: "Connection timed out"}
	}
	return &failure{status: 595, reason: "Connection refused"}
}
