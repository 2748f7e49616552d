// The formats in which programs answer, and how --format names those of each answer.
#pragma once

#include <array>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// A format of an answer: kText is for people, the others are for programs and pages.
enum class AnswerFormat { kText, kJson, kCsv, kMarkdown };

/// A name of --format. The first of a list is what is answered without the flag.
using FormatName = NamedValue<AnswerFormat>;

/// Plans of a search and strategies side by side.
inline constexpr std::array kPlanFormats = {FormatName{AnswerFormat::kText, "table"},
                                            FormatName{AnswerFormat::kJson, "json"},
                                            FormatName{AnswerFormat::kCsv, "csv"}};
/// One written plan, and the shipped profiles.
inline constexpr std::array kTableFormats = {FormatName{AnswerFormat::kText, "table"},
                                             FormatName{AnswerFormat::kJson, "json"}};
/// Layers per stage, and a schedule by itself.
inline constexpr std::array kOrderFormats = {FormatName{AnswerFormat::kText, "text"},
                                             FormatName{AnswerFormat::kJson, "json"},
                                             FormatName{AnswerFormat::kCsv, "csv"}};
/// Runs, rehearsals, tuning, profiles and simulated plans.
inline constexpr std::array kReportFormats = {FormatName{AnswerFormat::kText, "text"},
                                              FormatName{AnswerFormat::kJson, "json"}};
/// Errors of predictions.
inline constexpr std::array kValidationFormats = {FormatName{AnswerFormat::kText, "table"},
                                                  FormatName{AnswerFormat::kJson, "json"},
                                                  FormatName{AnswerFormat::kMarkdown, "markdown"}};

}  // namespace ptdp
