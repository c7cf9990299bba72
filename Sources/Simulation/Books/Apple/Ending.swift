/// Why access ends with a purchase that is neither refunded nor followed by another.
package enum Ending: String, Sendable {
    /// Auto-renewal is off.
    case voluntary
    /// The renewal failed.
    case billing
    /// A price increase was not accepted.
    case price
    /// The product is no longer for sale.
    case unavailable
    /// The developer switched auto-renewal off.
    case other
}
