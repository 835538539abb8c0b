package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/admin/shardclient"
)

// Servers judges what the addresses of a shard answered, and whether this program and
// the leader are of versions that go together.
func Servers(shard, version string, probes []shardclient.Probe) []Finding {
	l := &list{check: "ports"}
	var leaders []string
	standbys := 0
	for _, p := range probes {
		subject := shard + " " + p.Address
		switch p.Role {
		case shardclient.Leader:
			leaders = append(leaders, p.Address)
			l.add(OK, subject, "", "leads in term %d, answered within %s", p.Info.GetTerm(), span(p.Took))
		case shardclient.Standby:
			standbys++
			l.add(OK, subject, "", "stands by, answered within %s", span(p.Took))
		default:
			remedy, why := reach(p.Err)
			l.add(Fail, subject, remedy, "%s", why)
		}
	}
	l.check = "leader"
	switch {
	case len(leaders) == 1:
	case len(leaders) > 1:
		l.add(Warn, shard, "repeat in a minute; if it lasts, compare the clocks of the servers", "%s both lead: a change of leader is under way", strings.Join(leaders, " and "))
	case standbys > 0:
		l.add(Fail, shard, "wait one lease (leader_timeout of the configuration); if it lasts, the logs of the standbys say what they wait for", "%d servers stand by and none leads", standbys)
	case len(probes) == 0:
		l.add(Fail, shard, "name its servers with --servers or servers of the context", "no address is known")
	}
	for _, p := range probes {
		if p.Role == shardclient.Leader {
			l.versions(shard, version, p.Info.GetVersion())
		}
	}
	return l.all
}

// reach says why an address did not serve, and what to do.
func reach(err error) (remedy, why string) {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case err == nil:
		return "", ""
	case errors.As(err, &dns):
		return "correct the name in --servers or servers of the context", "the name is not known: " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the server, or correct the port: the operator API is 8993 unless the configuration says otherwise", "nothing listens there: connection refused"
	case has(err.Error(), "first record does not look like a TLS handshake"):
		return "correct the port: the operator API is 8993 unless the configuration says otherwise", "what listens there does not speak TLS"
	case errors.Is(err, shardclient.ErrHandshake):
		return "take the identity and ca.crt of this cluster, and the addresses of this shard", "certificates are not accepted: " + err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "open the port in firewalls and security groups between here and there", "no answer in time"
	case status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.Unauthenticated:
		return "take an identity with the role operator that the cluster has registered; " + newIdentity, "it refuses this identity: " + status.Convert(err).Message()
	}
	return "look at the log of the server", fmt.Sprint(err)
}

// versions compares releases: servers and programs of neighbouring ones work together.
func (l *list) versions(shard, mine, theirs string) {
	l.check = "versions"
	a, okA := release(mine)
	b, okB := release(theirs)
	switch {
	case !okA || !okB:
		l.add(OK, shard, "", "the leader is %s, this program %s", theirs, mine)
	case a[0] != b[0] || a[1]-b[1] > 1:
		l.add(Fail, shard, "upgrade the servers, one minor version at a time", "the leader is %s, this program %s: more than one minor version apart", theirs, mine)
	case b[1]-a[1] > 1:
		l.add(Fail, shard, "upgrade this program", "the leader is %s, this program %s: more than one minor version apart", theirs, mine)
	case a != b:
		l.add(OK, shard, "", "the leader is %s, this program %s: they work together", theirs, mine)
	default:
		l.add(OK, shard, "", "%s on both sides", theirs)
	}
}

// release reads major and minor of vMAJOR.MINOR.PATCH.
func release(version string) ([2]int, bool) {
	var r [2]int
	n, err := fmt.Sscanf(version, "v%d.%d.", &r[0], &r[1])
	return r, err == nil && n == 2
}
