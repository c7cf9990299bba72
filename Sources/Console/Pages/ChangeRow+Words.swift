import Readers
import Subscriptions

extension ChangeRow {
    /// What changed, for people; the kind as it is published if this version has no words for it.
    var what: String { Change.Kind(rawValue: kind)?.words ?? kind.replacing("_", with: " ") }

    /// Why it changed without an event.
    var causeWords: String {
        switch cause {
        case "clock": "its time came"
        case "products": "product settings"
        case "ownership": "ownership policy"
        default: cause
        }
    }
}

extension Change.Kind {
    fileprivate var words: String {
        switch self {
        case .opened: "access began"
        case .extended: "access extended"
        case .shortened: "access shortened"
        case .closed: "access ended"
        case .productChanged: "product changed"
        case .productAdded: "product added"
        case .productRemoved: "product ended"
        case .renewalSwitched: "renewal switched"
        case .nextProduct: "next product chosen"
        case .seatsChanged: "seats changed"
        case .customerChanged: "customer changed"
        case .consentRescinded: "consent withdrawn"
        case .unanswerableRequest: "refund question without a purchase"
        case .unknownOrderVoided: "unknown order taken back"
        case .customerErased: "personal data erased"
        }
    }
}
