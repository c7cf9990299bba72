/// How the release of 26 November 2026 read what this one reads differently.
///
/// The log keeps what its release derived from a body, and verification derives it again. Of an event that this earlier
/// release stored, both readings are right, and any other value is damage. Where this release only reads more, nothing is
/// needed: verification accepts members that an older release did not read.
package enum EarlierReading {
    /// True while bodies are read as that release did. Asked only where the readings differ, so that it costs nothing
    /// elsewhere.
    @TaskLocal package static var isInForce = false
}
