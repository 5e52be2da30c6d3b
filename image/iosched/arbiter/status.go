package arbiter

// Status is what an Arbiter knows at one time, as `ckpt storage status` shows
// it. Times are in seconds.
type Status struct {
	Unit     string  `json:"unit"`
	Policy   string  `json:"policy"`
	UptimeS  float64 `json:"uptime_s"`
	WindowS  float64 `json:"window_s"`
	LeaseS   float64 `json:"lease_s"`
	MaxWaitS float64 `json:"max_wait_s"`
	// Holder is the name of the application with the turn, as in Apps.
	Holder string `json:"holder,omitempty"`
	// HeldS is how long the turn has lasted.
	HeldS float64 `json:"held_s,omitempty"`
	// Revoking: the turn was revoked, and bursts of it are not released yet.
	Revoking bool `json:"revoking,omitempty"`
	// Windows counts the windows given, Turns the changes to another
	// application, Revokes and Evictions the bursts concerned.
	Windows   int64 `json:"windows"`
	Turns     int64 `json:"turns"`
	Revokes   int64 `json:"revokes"`
	Evictions int64 `json:"evictions"`
	// Stragglers counts evicted bursts that may still use the unit.
	Stragglers int   `json:"stragglers"`
	Bytes      int64 `json:"bytes"`
	// BusyS is how long somebody had a turn.
	BusyS float64 `json:"busy_s"`
	// Apps has those that are connected, in the order of their coming, then those that
	// have left, the newest first.
	Apps []AppStatus `json:"apps"`
}

// AppStatus is what an Arbiter knows of one application.
type AppStatus struct {
	App  string `json:"app"`
	User string `json:"user"`
	// State is "holds", "waits", "idle" (no burst) or "left".
	State       string `json:"state"`
	Kind        string `json:"kind,omitempty"`
	Connections int    `json:"connections"`
	// Waiting and Granted count bursts.
	Waiting int `json:"waiting"`
	Granted int `json:"granted"`
	// Remaining is the number of bytes that its bursts have left; -1 if a
	// burst did not say.
	Remaining int64 `json:"remaining_bytes"`
	// Requests counts the bursts asked for.
	Requests int64 `json:"requests"`
	// Aggregates counts the times that several bursts were granted together,
	// Aggregated the bursts in them; Largest and Last are numbers of bursts.
	Aggregates int64 `json:"aggregates"`
	Aggregated int64 `json:"aggregated"`
	Largest    int   `json:"largest_aggregate"`
	Last       int   `json:"last_aggregate"`
	Windows    int64 `json:"windows"`
	Revokes    int64 `json:"revokes"`
	Evictions  int64 `json:"evictions"`
	Bytes      int64 `json:"bytes"`
	// Served counts the times from a first Ask to the end of all bursts.
	Served int64 `json:"served"`
	// WaitS is how long the application waited without a turn in all,
	// LongestWaitS the longest time at once, HeldS how long it had turns.
	WaitS        float64 `json:"wait_s"`
	LongestWaitS float64 `json:"longest_wait_s"`
	HeldS        float64 `json:"held_s"`
	// FlowS is the sum of the flow times of what was served, MaxFlowS the
	// longest. Stretch is flow time over the time that the same bytes take
	// alone; 0 if that is not known.
	FlowS    float64 `json:"flow_s"`
	MaxFlowS float64 `json:"max_flow_s"`
	Stretch  float64 `json:"stretch"`
}
