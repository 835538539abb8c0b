package providererror

import (
	"fmt"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// maxMessage is how long an event's message gets, in bytes.
const maxMessage = 1024

// Verdict is what an error of a shard means.
type Verdict struct {
	// Word is the class for users, such as InsufficientCapacity.
	Word string
	// NoRoom: the provider gives no more machines of this kind, for now. Quota: because the
	// account may have no more.
	NoRoom, Quota bool
	// Message is the word, the shard and the server's text, at most 1024 bytes.
	Message string
}

// words are the classes of errors.
var words = map[string]string{
	"capacity":             "InsufficientCapacity",
	"quota":                "QuotaExceeded",
	"throttled":            "ProviderThrottled",
	"invalid":              "InvalidConfig",
	"auth":                 "ProviderAuthFailed",
	"not-found-ref":        "ProviderReferenceMissing",
	"registration-timeout": "RegistrationTimeout",
	"image":                "ImageUnresolved",
	"lb":                   "LoadBalancerError",
	"failed-launch":        "LaunchFailed",
	"crash-looping":        "CrashLooping",
}

// Judge says what an error of a shard means. A class that is not known, or none, is a
// ProviderError.
func Judge(shard string, e *nstancev1.ErrorEvent) Verdict {
	word := words[e.GetClass()]
	if word == "" {
		word = "ProviderError"
	}
	return Verdict{
		Word:    word,
		NoRoom:  e.GetClass() == "capacity" || e.GetClass() == "quota",
		Quota:   e.GetClass() == "quota",
		Message: clip(fmt.Sprintf("%s: shard %s: %s", word, shard, e.GetError())),
	}
}

// clip cuts a message that is too long, and what is no text in it.
func clip(message string) string {
	message = strings.ToValidUTF8(message, "?")
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}
