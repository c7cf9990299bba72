import Foundation

/// Limits of the library, each with its reason.
enum Limits {
    /// Longest time for a response.
    static let requestSeconds: TimeInterval = 30
    /// Pauses after failures: doubled each time, from a second to a quarter of an hour, and half as long at random, so that
    /// the devices of all users do not come back at the same time.
    static let pauseSecondsMin: TimeInterval = 1
    static let pauseSecondsMax: TimeInterval = 900
    /// Longest pause that a server may ask for.
    static let retryAfterSecondsMax: TimeInterval = 3600
    /// Most transactions of one request, which is the server's limit.
    static let transactionsMax = 100
    /// How often the time is written to the cache: each time costs the device a write.
    static let keptSeconds: TimeInterval = 60
    /// For how long a purchase that has not reached the server grants access: as long as a signed answer is valid.
    static let deviceGrantSeconds: TimeInterval = 604_800
    /// How far a clock may be put back without being suspect: corrections by the network are smaller.
    static let clockToleranceSeconds: TimeInterval = 300
}
