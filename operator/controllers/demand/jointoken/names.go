package jointoken

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Tokens take turns through as many periods of half a life, with room for some processes in
// each. A token that is made in period p is valid in p+2 at the latest and has ended in p+3:
// there its names are free again.
const (
	periods  = 4
	attempts = 4 // processes that begin in one period and find the tokens of those before
)

// namePrefix begins the name of each such Secret, by the rule of Kubernetes.
const namePrefix = "bootstrap-token-"

// Names are the names of all Secrets that the keeper of a cluster's tenant makes, ever.
func Names(clusterID, tenant string) []string {
	var all []string
	for p := range int64(periods) {
		for a := range attempts {
			all = append(all, namePrefix+id(clusterID, tenant, p, a))
		}
	}
	return all
}

// id is the public half of a token: six of the letters that Kubernetes allows there. The chart
// computes the same.
func id(clusterID, tenant string, period int64, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "nstance join token/%s/%s/%d/%d", clusterID, tenant, period%periods, attempt))
	return hex.EncodeToString(sum[:3])
}

// period is the number of the half life that a moment is in.
func period(at time.Time, life time.Duration) int64 { return at.UnixNano() / int64(life/2) }
