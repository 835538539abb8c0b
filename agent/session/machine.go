package session

import (
	"time"

	"nstance.dev/agent/hostlink"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// maxStatus is the largest report of a paver that is passed on, in bytes: a server drops
// what is larger.
const maxStatus = 64 << 10

// maxLogs are the largest logs that are passed on, in bytes.
const maxLogs = 1<<20 + 1<<10

// machineStatus is what the server of a stream knows of the host's node machine. Its zero
// value is that of a server that was not told anything.
type machineStatus struct {
	able bool // the capability was offered in hello
	last *nstancev1.MachineStatus
	logs *nstancev1.MachineLogs
	sent time.Time // last
	due  time.Time // when to look again; zero: not before the welcome, or something happens
}

// welcome has the status told to a leader that has not heard of it.
func (m *machineStatus) welcome(now time.Time) { m.last, m.logs, m.due = nil, nil, now }

// hurry has the status looked at as soon as the time since the last one allows.
func (m *machineStatus) hurry(now time.Time) { m.due = later(m.sent.Add(spacing), now) }

func (m *machineStatus) isDue(now time.Time) bool { return !m.due.IsZero() && !now.Before(m.due) }

// news is the report of the paver if the server has not had it, and nil otherwise.
func (m *machineStatus) news(host *hostlink.Link, now time.Time) *nstancev1.MachineStatus {
	status := host.Status()
	if status == nil || status == m.last {
		return nil
	}
	m.last, m.sent = status, now
	return status
}

// newLogs are the logs of the host if the server has not had them, and nil otherwise.
func (m *machineStatus) newLogs(host *hostlink.Link) *nstancev1.MachineLogs {
	logs := host.Logs()
	if logs == nil || logs == m.logs {
		return nil
	}
	m.logs = logs
	return logs
}
