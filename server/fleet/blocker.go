package fleet

// Blocker is the kind of thing that blocks a decision: one word for programs,
// where a [Note] says the rest to people. What explains a group, conditions and
// labels of metrics, is made of blockers.
type Blocker string

// The blockers.
const (
	BlockerBackOff         Blocker = "back-off"         // creates failed, and are tried again later
	BlockerCrashLoop       Blocker = "crash-looping"    // its machines end before they are of use
	BlockerRotationStopped Blocker = "rotation-stopped" // launches from the present configuration fail
	BlockerNoCapacity      Blocker = "no-capacity"      // the provider has no room for what is asked
	BlockerImage           Blocker = "image-unresolved" // no image is known that its machines could be made with
	BlockerType            Blocker = "type-mismatch"    // machines of its instance type are not of its architecture
	BlockerThrottled       Blocker = "throttled"        // the provider wants to be called less often
	BlockerBound           Blocker = "bound"            // a limit on what goes on at once, or in a minute, is reached
	BlockerWindow          Blocker = "window"           // no maintenance window is open
	BlockerReplacement     Blocker = "replacement"      // another instance has to be ready first
	BlockerUnsettled       Blocker = "unsettled"        // the group is not at size, or one of its instances is starting, silent, sick or leaving
	BlockerUnproven        Blocker = "unproven"         // what is known does not suffice to act
	BlockerUnknownGroup    Blocker = "held"             // what the group should be is not known
	BlockerRebuilt         Blocker = "rebuilt"          // its entry was rebuilt after a loss, and nobody has confirmed it
	BlockerListing         Blocker = "listing"          // the provider's listing cannot be believed
	BlockerQueue           Blocker = "queue"            // earlier ones of the same kind go first
	BlockerPaused          Blocker = "paused"           // somebody said so
	BlockerHold            Blocker = "hold"             // an operation goes on at a machine, which is not to be taken for a failure
)

// Blockers returns every blocker.
func Blockers() []Blocker {
	return []Blocker{
		BlockerBackOff, BlockerCrashLoop, BlockerRotationStopped, BlockerNoCapacity, BlockerImage, BlockerType, BlockerThrottled,
		BlockerBound, BlockerWindow, BlockerReplacement, BlockerUnsettled, BlockerUnproven, BlockerUnknownGroup, BlockerRebuilt, BlockerListing, BlockerQueue, BlockerPaused, BlockerHold,
	}
}
