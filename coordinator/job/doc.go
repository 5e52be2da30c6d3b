// Package job is what a store keeps of a job besides the images of its ranks: the
// description ([Spec]), how it ended, the message logs, the output, the journal, the
// traces and, of several groups, the baseline. Restart, verification and pruning read
// all of it; a running coordinator writes it.
//
//	job                  the Spec, as JSON
//	stdin.json           the standard input of a program, for later runs
//	line.json            the baseline of several groups: the checkpoints still needed
//	logs/rank-R          the message log of a rank, in segments of package msglog
//	output.jsonl         lines that the ranks have put out, each once
//	history.jsonl        the journal: the events of all runs
//	result.json          how the last run ended
//	traces/NNNN.trace    the I/O of a checkpoint
//
// # Promises
//
//   - A job of several groups is restarted from checkpoints and logs that fit together,
//     or an error names the file that is missing or damaged.
//   - Nothing is removed before the baseline says, durably, that nobody needs it.
//   - A line of output is shown once, however often the job is restarted.
package job
