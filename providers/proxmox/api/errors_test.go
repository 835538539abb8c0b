package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"

	"nstance.dev/server/driver"
)

func TestKindOf(t *testing.T) {
	task := func(words string) error { return &Refusal{reason: words} }
	said := func(status int, words string) error { return &Refusal{status: status, reason: words} }
	for _, c := range []struct {
		err  error
		want driver.ErrorClass
	}{
		{said(400, "Parameter verification failed."), driver.Invalid},
		{said(401, "No ticket"), driver.Auth},
		{said(403, "Permission check failed (/vms/100, VM.Clone)"), driver.Auth},
		{said(429, "Too Many Requests"), driver.Throttled},
		{said(501, "Method 'GET /x' not implemented"), driver.Invalid},
		{said(503, "Service Unavailable"), driver.Transient},
		{said(595, "No route to host"), driver.Transient},
		{said(596, "Connection timed out"), driver.Ambiguous},
		{said(500, "Configuration file 'nodes/pve1/qemu-server/10000.conf' does not exist"), driver.NotFound},
		{said(500, "storage 'gone' does not exist"), driver.MissingRef},
		{said(500, "storage 'local-lvm' is not available on node 'pve2'"), driver.MissingRef},
		{said(500, "pool 'x' does not exist"), driver.MissingRef},
		{said(500, "no such cluster node 'pve9'"), driver.MissingRef},
		{said(500, "hostname lookup 'pve9' failed - failed to get address info"), driver.MissingRef},
		{said(500, "cluster not ready - no quorum?"), driver.Transient},
		{said(500, "VM is locked (clone)"), driver.Transient},
		{said(500, "VM 10000 already exists on node 'pve2'"), driver.Transient},
		{said(500, "can't clone to non-shared storage 'local-lvm'"), driver.Invalid},
		{said(500, "Linked clone feature is not supported for 'local:100/disk.raw' (scsi0)"), driver.Invalid},
		{said(500, "words that nobody has seen"), driver.Ambiguous},
		{task("clone failed: cfs-lock 'storage-ceph' error: got lock request timeout"), driver.Transient},
		{task("can't lock file '/var/lock/qemu-server/lock-10000.conf' - got timeout"), driver.Transient},
		{task("import failed: command '/usr/bin/cp' failed: No space left on device"), driver.Capacity},
		{task("clone failed: lvcreate 'pve/vm-10000' error: Insufficient free space"), driver.Capacity},
		{&Refusal{reason: "start failed: QEMU exited with code 1", detail: "kvm: cannot set up guest memory 'pc.ram': Cannot allocate memory"}, driver.Capacity},
		{task("unable to write volume - Disk quota exceeded"), driver.Quota},
		{task("unexpected status"), driver.Transient},
		{context.Canceled, driver.Ambiguous},
		{fmt.Errorf("clone: %w", context.DeadlineExceeded), driver.Ambiguous},
		{&url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, driver.Transient},
		{&url.Error{Op: "Get", Err: &net.DNSError{Err: "no such host", Name: "pve"}}, driver.Transient},
		{&url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}}, driver.Auth},
		{io.ErrUnexpectedEOF, driver.Ambiguous},
		{Errorf(driver.Quota, "a kind that is known"), driver.Quota},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

func TestNumberTaken(t *testing.T) {
	for words, want := range map[string]bool{
		"unable to create VM 10000: config file already exists":                                 true,
		"VM 10000 already exists on node 'pve2'":                                                true,
		"unable to open file '/etc/pve/nodes/pve1/qemu-server/10000.conf.tmp.77' - File exists": true,
		"can't lock file '/var/lock/qemu-server/lock-10000.conf' - got timeout":                 true,
		"can't lock file '/var/lock/qemu-server/lock-9001.conf' - got timeout":                  false, // the template's
		"clone failed: cfs-lock 'storage-ceph' error: got lock request timeout":                 false,
		"clone failed: rbd create 'vm-10000-disk-0' error: rbd: create error: (17) File exists": false,
	} {
		if got := NumberTaken(&Refusal{reason: words}, 10_000); got != want {
			t.Errorf("%q: taken %t", words, got)
		}
	}
	if !NumberTaken(&Refusal{status: 400, reason: "Parameter verification failed.", params: map[string]string{"newid": "VM 10000 already exists"}}, 10_000) {
		t.Error("a parameter's own words do not count")
	}
	if NumberTaken(io.EOF, 10_000) || NumberTaken(nil, 10_000) {
		t.Error("other errors count")
	}
}

func TestRefusalSaysWhatIsWrong(t *testing.T) {
	for want, r := range map[string]Refusal{
		"403 Permission check failed (/, Sys.Audit)":                             {status: 403, reason: "Permission check failed (/, Sys.Audit)"},
		"400 Parameter verification failed. memory: too small; newid: is in use": {status: 400, reason: "Parameter verification failed.", params: map[string]string{"newid": "is in use\n", "memory": "too small"}},
		"start failed: QEMU exited with code 1 (bridge 'vmbr9' does not exist)":  {reason: "start failed: QEMU exited with code 1", detail: "bridge 'vmbr9' does not exist"},
	} {
		if got := r.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
